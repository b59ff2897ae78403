# run: --workers 3
# engines: port torch
# shows: AssertionError: stage 1 has no next stage
# fix: stage.rpc_async().connect(following) => stage.rpc_sync().connect(following)
"""A pipeline: each stage is an object on a worker of its own and hands on what it has computed."""

import os

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch import nn


class Stage(nn.Module):
    def __init__(self, number, last):
        super().__init__()
        torch.manual_seed(number)
        self.number, self.last = number, last
        self.layer = nn.Linear(4, 4)
        self.following = None

    def connect(self, following):
        self.following = following  # <- first

    def forward(self, x):
        y = torch.relu(self.layer(x))
        if self.last:
            return y
        assert self.following is not None, f"stage {self.number} has no next stage"  # <- second
        return self.following.rpc_sync().forward(y)


def pipeline(world_size):
    stages = [
        rpc.remote(f"worker{n}", Stage, args=(n, n == world_size - 1)) for n in range(1, world_size)
    ]
    for stage, following in zip(stages, stages[1:]):
        stage.rpc_async().connect(following)
    for step in range(2):
        y = stages[0].rpc_sync().forward(torch.ones(2, 4))
        print(step, tuple(y.shape))


def main(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "29513"
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size)
    if rank == 0:
        pipeline(world_size)
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(main, args=(3,), nprocs=3, join=True)
