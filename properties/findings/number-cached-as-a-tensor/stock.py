import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh


def work(rank, init):
    dist.init_process_group("gloo", init, world_size=2, rank=rank)
    mesh = init_device_mesh("cpu", (2,))
    total = distribute_tensor(torch.arange(4.0), mesh, [Shard(0)]).sum()
    found = [(total + each).full_tensor().item() for each in (torch.tensor(10), 10)]
    if rank == 0:
        word = "OK" if found == [16, 16] else "BUG"
        print(word, f"6 plus a tensor of 10, then plus the number 10: {found}", flush=True)


if __name__ == "__main__":
    mp.spawn(work, (f"file://{tempfile.mktemp()}",), 2)
