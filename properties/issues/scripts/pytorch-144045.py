# pytorch/pytorch#144045, 1 ranks
# FSDP2 with one rank: a small parameter of a submodule has a gradient of zero
# Expected: the gradient of one process
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.zeros(1))
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x) * self.scale.exp()


dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Sequential(Scaled(), Scaled())
model(torch.ones(2, 4)).sum().backward()
alone = [block.scale.grad.item() for block in model]
model.zero_grad()
for block in model:
    fully_shard(block)
fully_shard(model)
model(torch.ones(2, 4)).sum().backward()
found = [block.scale.grad.full_tensor().item() for block in model]
print("OK" if found == alone else "BUG", "the gradients are those of one process", flush=True)
