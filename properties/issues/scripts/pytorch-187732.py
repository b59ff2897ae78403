# pytorch/pytorch#187732, 2 ranks
# DDP(static_graph=True): the first backward pass under no_sync() is an internal assertion
# Expected: gradients of two microbatches are added up, then averaged
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 4), static_graph=True)
said = "OK both passes ended"
try:
    with model.no_sync():
        model(torch.ones(2, 4)).sum().backward()
    model(torch.ones(2, 4)).sum().backward()
except RuntimeError as error:
    said = f"BUG {str(error).split(' at ')[0]}"
if dist.get_rank() == 0:
    print(said, flush=True)
