# pytorch/pytorch#173608, 3 ranks
# new_group(use_local_synchronization=True) hangs among ranks that are in different numbers of groups
# Expected: ranks 0 and 1 make their group, whatever groups each is in besides
import datetime

import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=10))
rank = dist.get_rank()
dist.new_group([0, 2])
said = "OK the group stands"
if rank < 2:
    try:
        limit = datetime.timedelta(seconds=10)
        dist.new_group([0, 1], use_local_synchronization=True, timeout=limit)
    except RuntimeError:
        said = "BUG no group after 10 s on both ranks"
if rank == 0:
    print(said, flush=True)
