# run: --workers 3
# engines: port torch
# shows: AssertionError: weight is
# fix: rpc.rpc_async("ps", update, args=(torch.ones(2),)) => rpc.rpc_sync("ps", update, args=(torch.ones(2),))
"""Trainers send their gradients and report that they are done; the driver reads the weights."""

import os

import torch
import torch.distributed.rpc as rpc

weight = torch.zeros(2)


def update(gradient):
    weight.sub_(gradient)


def read():
    return weight


def train(steps):
    for _ in range(steps):
        rpc.rpc_async("ps", update, args=(torch.ones(2),))  # <- at fault
    return steps


if __name__ == "__main__":
    rank = int(os.environ["RANK"])
    rpc.init_rpc(("driver", "ps", "trainer")[rank], rank=rank, world_size=3)
    if rank == 0:
        steps = rpc.rpc_sync("trainer", train, args=(3,))
        found = rpc.rpc_sync("ps", read).tolist()
        assert found == [-3.0, -3.0], f"weight is {found} after {steps} steps"
    rpc.shutdown()
