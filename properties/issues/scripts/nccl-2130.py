# NVIDIA/nccl#2130, 2 ranks
# A batch of a send and a receive against one of a receive alone waits, and says nothing of the other rank
# Expected: an error that names rank 1
import datetime
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=10))
rank = dist.get_rank()
batch = [dist.P2POp(dist.irecv, torch.zeros(1), 1 - rank)]
if rank == 0:
    batch.append(dist.P2POp(dist.isend, torch.ones(1), 1))
works = dist.batch_isend_irecv(batch)
if rank == 1:
    works[0].wait()
    time.sleep(20)
else:
    try:
        works[0].wait()
        print("OK the batch ended", flush=True)
    except RuntimeError as error:
        print("BUG", str(error).rpartition("] ")[2].splitlines()[0], flush=True)
