import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel


def work(rank, init):
    dist.init_process_group("gloo", init, world_size=2, rank=rank)
    model = DistributedDataParallel(torch.nn.Linear(4, 4), static_graph=True)
    said = "OK two microbatches"
    try:
        with model.no_sync():
            model(torch.ones(2, 4)).sum().backward()
        model(torch.ones(2, 4)).sum().backward()
    except RuntimeError as error:
        said = f"BUG {str(error).split(' at ')[0]}"
    if rank == 0:
        print(said, flush=True)


if __name__ == "__main__":
    mp.spawn(work, (f"file://{tempfile.mktemp()}",), 2)
