import datetime
import tempfile

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
        said = f"BUG rank {rank}: {type(error).__name__} in clip_grad_norm_"
        if "empty tensor" in str(error):
            return dist.barrier()  # it is still there
    if rank == 0:
        print(said + ", while rank 1 has another error" * ("BUG" in said), flush=True)


if __name__ == "__main__":
    try:
        mp.spawn(work, (f"file://{tempfile.mktemp()}",), 2)
    except Exception:  # the barrier of rank 1
        pass
