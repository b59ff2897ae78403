# run: --workers 2
# engines: port torch
# shows: AssertionError: \d+ activations are alive after \d steps
# always: yes
# fix: cache[step] = activation => cache.clear()
"""A trainer leaves activations on the worker that made them, and keeps what it will need again."""

import gc
import os

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

cache = {}


class Activation:
    def __init__(self, step):
        self.value = torch.full((1000,), float(step))


def forward(step):
    return Activation(step)


def use(activation):
    return activation.to_here().value.sum().item() if isinstance(activation, rpc.PyRRef) else 0


def count():
    gc.collect()
    return sum(isinstance(each, Activation) for each in gc.get_objects())


def train():
    for step in range(6):
        activation = rpc.remote("stage", forward, args=(step,))
        cache[step] = activation  # <- at fault
        rpc.rpc_sync("stage", use, args=(activation,))
        there = rpc.rpc_sync("stage", count)
        assert there <= 3, f"{there} activations are alive after {step + 1} steps"
        del activation


def main(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "29541"
    rpc.init_rpc("trainer" if rank == 0 else "stage", rank=rank, world_size=world_size)
    if rank == 0:
        train()
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(main, args=(2,), nprocs=2)
