# pytorch/pytorch#79171, 2 ranks
# DDP(static_graph=True) with a parameter that never has a gradient fails in the third step
# Expected: five steps
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Conv3d(1, 1, 1), torch.nn.Conv3d(1, 1, 1)

    def forward(self, x):
        return self.a(x), self.b(x)


dist.init_process_group("gloo")
model = DistributedDataParallel(Model(), static_graph=True)
said, done = "OK five steps", 0
try:
    for _ in range(5):
        used, _ = model(torch.zeros(1, 1, 1, 1, 1))
        used.sum().backward()
        done += 1
except RuntimeError as error:
    said = f"BUG after {done} steps: {str(error).partition('.')[0]}"
if dist.get_rank() == 0:
    print(said, flush=True)
