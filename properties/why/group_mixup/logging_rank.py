# run: --workers 3
# engines: port torch
# shows: (doesn't match the broadcast shape|collectives? .*(do not go together|another order))
# always: yes
# fix: if rank == 0:\n            dist.all_reduce(loss) => dist.all_reduce(loss)\n        if rank == 0:
"""Data-parallel training by hand; rank 0 logs the loss over all ranks now and then."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn


def average(model, size):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= size


def train(rank, size, steps):
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        x = torch.full((4, 2), float(rank + step))
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        average(model, size)
        optimizer.step()
        loss = loss.detach()
        if rank == 0:
            dist.all_reduce(loss)  # <- at fault
            print(step, loss.item() / size)
    return model.weight.detach().clone()


def main(rank, size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "29581"
    dist.init_process_group("gloo", rank=rank, world_size=size)
    weight = train(rank, size, steps=2)
    found = [torch.zeros_like(weight) for _ in range(size)]
    dist.all_gather(found, weight)
    assert all(torch.equal(each, weight) for each in found), "the ranks have different weights"
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(main, args=(3,), nprocs=3)
