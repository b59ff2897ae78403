import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer


def work(rank, init):
    dist.init_process_group("gloo", init, world_size=2, rank=rank)
    weight = torch.nn.Parameter(torch.ones(1))
    local = torch.optim.SGD([weight], lr=1.0)
    optimizer = PostLocalSGDOptimizer(local, PeriodicModelAverager(period=4))
    optimizer.load_state_dict(optimizer.state_dict())  # as from a checkpoint
    for group in optimizer.param_groups:  # what a scheduler of learning rates does
        group["lr"] = 0.25
    weight.sum().backward()
    optimizer.step()
    if rank == 0:
        word = "OK" if weight.item() == 0.75 else "BUG"
        print(word, f"a step of 0.25 from 1 leads to {weight.item()}", flush=True)


if __name__ == "__main__":
    mp.spawn(work, (f"file://{tempfile.mktemp()}",), 2)
