import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
from torch.nn.functional import mse_loss


def work(rank, init):
    dist.init_process_group("gloo", init, world_size=2, rank=rank)
    mesh = init_device_mesh("cpu", (2,))
    x = distribute_tensor(torch.tensor([3.0, 3, 6]), mesh, [Shard(0)]).requires_grad_()
    loss = mse_loss(x, torch.zeros_like(x))
    loss.backward()
    found = loss.full_tensor().item(), x.grad.full_tensor().tolist()
    if rank == 0:
        word = "OK" if found == (18, [2, 2, 4]) else "BUG"
        print(word, f"the mean of 9, 9, 36 is {found[0]}, its gradient {found[1]}", flush=True)


if __name__ == "__main__":
    mp.spawn(work, (f"file://{tempfile.mktemp()}",), 2)
