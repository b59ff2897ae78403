import datetime
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.fsdp import fully_shard


def work(rank, init):
    limit = datetime.timedelta(seconds=10)
    dist.init_process_group("gloo", init, timeout=limit, world_size=2, rank=rank)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
    fully_shard(model)  # of the last bias rank 1 has no element
    model(torch.ones(2, 4)).sum().backward()
    said = "OK the norm of all gradients"
    try:
        parameters = model.parameters()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0, norm_type=float("inf")).full_tensor()
    except RuntimeError as error:
        said = f"BUG {str(error).rpartition('] ')[2].splitlines()[0]}, for an error of rank 1"
        if rank == 1:
            time.sleep(20)
    if rank == 0:
        print(said, flush=True)


if __name__ == "__main__":
    mp.spawn(work, (f"file://{tempfile.mktemp()}",), 2)
