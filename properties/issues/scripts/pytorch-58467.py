# pytorch/pytorch#58467, 2 ranks
# all_reduce and reduce of an empty tensor fail on gloo
# Expected: nothing to do, as on NCCL
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
said = "OK both ended"
try:
    dist.all_reduce(torch.zeros(0))
    dist.reduce(torch.zeros(0), 0)
except RuntimeError as error:
    said = f"BUG {str(error).splitlines()[0]}"
if dist.get_rank() == 0:
    print(said, flush=True)
