# pytorch/pytorch#128949, 2 ranks
# A parameter that no rank uses: DDP does not say so in the first step, and the replicas are apart after it
# Expected: an error, or gradients that are equal on both ranks
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)

    def forward(self, x):
        return self.a(x)


dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(Model())
optimizer = torch.optim.SGD(model.parameters(), lr=1)
model(torch.full((2, 1), rank + 1.0)).mean().backward()
optimizer.step()
weights = [torch.zeros(1, 1) for _ in range(2)]
dist.all_gather(weights, model.module.a.weight.detach())
if rank == 0:
    apart = (weights[0] - weights[1]).abs().item()
    print(
        "BUG" if apart else "OK", f"the weights of two replicas differ by {apart:.3g}", flush=True
    )
