# pytorch/pytorch#152406, 2 ranks
# item() of a DTensor with a Partial placement is the part of this rank
# Expected: the sum, or an error
import torch
import torch.distributed as dist
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2,))
total = distribute_tensor(torch.arange(4.0), mesh, [Shard(0)]).sum()
try:
    found = total.item()
    said = f"{'OK' if found == 6 else 'BUG'} the sum of 0 to 3 is {found}"
except RuntimeError as error:
    said = f"OK refused: {str(error).splitlines()[0]}"
if dist.get_rank() == 0:
    print(said, flush=True)
