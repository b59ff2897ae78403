import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh


def train(rank, init, more_groups):
    dist.init_process_group("gloo", init, world_size=4, rank=rank)
    for _ in range(more_groups):
        dist.new_group()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))["tp"]
    x = distribute_tensor(torch.arange(4.0), mesh, [Shard(0)])
    try:
        found = (x + x).full_tensor().tolist()
    except RuntimeError as error:
        found = str(error)
    dist.barrier()
    dist.destroy_process_group()
    return found


def work(rank, inits):
    found = [train(rank, init, 2 - 2 * nth) for nth, init in enumerate(inits)]
    if rank == 0:
        word = "OK" if found[0] == found[1] else "BUG"
        print(word, f"x + x in the first group, and in the second: {found}", flush=True)


if __name__ == "__main__":
    mp.spawn(work, ([f"file://{tempfile.mktemp()}" for _ in range(2)],), 4)
