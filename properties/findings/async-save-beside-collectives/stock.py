import datetime
import os
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp


def work(rank, init, folder):
    limit = datetime.timedelta(seconds=10)
    dist.init_process_group("gloo", init, timeout=limit, world_size=2, rank=rank)
    try:
        for step in range(20):
            saving = dcp.async_save({"w": torch.ones(4)}, checkpoint_id=f"{folder}/{step}")
            dist.barrier()
            total = torch.ones(1)
            dist.all_reduce(total)
            if total.item() != 2:
                raise ValueError("the sum of two ones is not 2")
            saving.result()
        said = "OK 20 checkpoints"
    except Exception:
        said = "BUG async_save() or an all_reduce beside it failed"
    if rank == 0:
        print(said, flush=True)
    os._exit(0)


if __name__ == "__main__":
    mp.spawn(work, (f"file://{tempfile.mktemp()}", tempfile.mkdtemp()), 2)
