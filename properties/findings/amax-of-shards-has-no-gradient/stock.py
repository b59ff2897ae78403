import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh


def work(rank, init):
    dist.init_process_group("gloo", init, world_size=2, rank=rank)
    mesh = init_device_mesh("cpu", (2,))
    x = distribute_tensor(torch.tensor([1.0, 2, 3, 4]), mesh, [Shard(0)]).requires_grad_()
    x.amax().backward()
    found = x.grad.full_tensor().tolist()
    if rank == 0:
        word = "OK" if found == [0, 0, 0, 1] else "BUG"
        print(word, f"the gradient of the largest of 1, 2, 3, 4 is {found}", flush=True)


if __name__ == "__main__":
    mp.spawn(work, (f"file://{tempfile.mktemp()}",), 2)
