# pytorch/pytorch#80832, 2 ranks
# DDP(static_graph=True): a second backward pass through the output of one forward pass fails
# Expected: gradients of both passes, or an error that says that it is not supported
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 4), static_graph=True)
output = model(torch.ones(2, 4))
said = "OK two passes"
try:
    output.sum().backward(retain_graph=True)
    output.backward(torch.zeros_like(output))
except (RuntimeError, SystemError) as error:
    said = f"BUG {type(error).__name__}: {str(error).split(' at ')[0]}"
if dist.get_rank() == 0:
    print(said, flush=True)
