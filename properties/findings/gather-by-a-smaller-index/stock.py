import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh


def work(rank, init):
    dist.init_process_group("gloo", init, world_size=2, rank=rank)
    mesh = init_device_mesh("cpu", (2,))
    x, index = torch.arange(8.0).reshape(2, 4), torch.tensor([[0, 0]])
    sharded = distribute_tensor(x, mesh, [Shard(1)])
    found = sharded.gather(0, distribute_tensor(index, mesh, [Replicate()])).full_tensor()
    if rank == 0:
        right = x.gather(0, index)
        word = "OK" if torch.equal(found, right) else "BUG"
        print(word, f"gathered {found.tolist()}, and not {right.tolist()}", flush=True)


if __name__ == "__main__":
    mp.spawn(work, (f"file://{tempfile.mktemp()}",), 2)
