# pytorch/pytorch#145376, 2 ranks
# new_group on gloo hangs after split_group of some of the ranks
# Expected: the second group stands
import datetime

import torch.distributed as dist

limit = datetime.timedelta(seconds=10)
dist.init_process_group("gloo", timeout=limit)
said = "OK both groups stand"
try:
    dist.split_group(split_ranks=[[0]], timeout=limit)
except RuntimeError as error:
    said = f"OK split_group is refused: {str(error).splitlines()[0]}"
try:
    dist.barrier(dist.new_group([0, 1], backend="gloo", timeout=limit))
except RuntimeError as error:
    said = f"BUG {str(error).splitlines()[0]}"
if dist.get_rank() == 0:
    print(said, flush=True)
