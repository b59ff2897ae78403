import datetime
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank, init):
    limit = datetime.timedelta(seconds=10)
    dist.init_process_group("gloo", init, timeout=limit, world_size=2, rank=rank)
    batch = [dist.P2POp(dist.irecv, torch.zeros(1), 1 - rank)]
    if rank == 0:  # rank 1 sends nothing, and only receives
        batch.append(dist.P2POp(dist.isend, torch.ones(1), 1))
    works = dist.batch_isend_irecv(batch)
    if rank == 1:
        works[0].wait()
        time.sleep(20)
        return
    try:
        works[0].wait()
        said = "OK the batch ended"
    except RuntimeError as error:
        said = f"BUG {str(error).rpartition('] ')[2].splitlines()[0]}, no word of rank 1"
    print(said, flush=True)


if __name__ == "__main__":
    mp.spawn(work, (f"file://{tempfile.mktemp()}",), 2)
