# pytorch/pytorch#69031, 2 ranks
# DDP(find_unused_parameters=True) reduces what the last microbatch used alone, and not what was used under no_sync()
# Expected: the mean of the gradients 1 and 2
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = (torch.nn.Linear(1, 1, bias=False) for _ in range(2))

    def forward(self, x, first):
        return self.a(x) if first else self.b(x)


dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(Model(), find_unused_parameters=True)
x = torch.full((1, 1), rank + 1.0)
with model.no_sync():
    model(x, True).sum().backward()
model(x, False).sum().backward()
found = model.module.a.weight.grad.item()
if rank == 0:
    print("OK" if found == 1.5 else "BUG", f"the gradient is {found}, the mean is 1.5", flush=True)
