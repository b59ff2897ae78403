# pytorch/pytorch#158719, 2 ranks
# FSDP2: ranks that use other parameters reduce tensors of other sizes
# Expected: gradients of what one rank used alone, or an error that says so
import datetime

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x, both):
        return self.a(x) + self.b(x) if both else self.a(x)


dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=10))
rank = dist.get_rank()
model = fully_shard(Model())
said = "OK a step"
try:
    model(torch.ones(2, 4), rank == 0).sum().backward()
    grad = model.a.weight.grad.full_tensor()
    if not torch.equal(grad, torch.full((4, 4), 2.0)):
        said = "BUG the gradient of what both used is wrong"
except RuntimeError as error:
    said = f"BUG {type(error).__name__} without a word of the parameters"
if rank == 0:
    print(said, flush=True)
