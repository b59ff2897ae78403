# pytorch/pytorch#97030, 2 ranks
# DDP(static_graph=True) refuses a model of which one output is never used
# Expected: the parameters of that output have no gradient, and training goes on
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(10, 10), torch.nn.Linear(10, 10)

    def forward(self, x):
        return self.a(x), self.b(x)


dist.init_process_group("gloo")
model = DistributedDataParallel(Model(), static_graph=True)
said, done = "OK five steps", 0
try:
    for _ in range(5):
        used, _ = model(torch.ones(1, 10))
        used.sum().backward()
        done += 1
except RuntimeError as error:
    said = f"BUG after {done} steps: {str(error).partition('.')[0]}"
if dist.get_rank() == 0:
    print(said, flush=True)
