"""A reference is sent beside an argument that cannot be read."""

import os

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


class Unreadable:
    def __reduce__(self):
        return unreadable, ()


def unreadable():
    raise ValueError("unreadable")


def value():
    return torch.ones(2)


def play():
    rref = rpc.remote("worker1", value)
    rref.to_here()
    try:
        rpc.rpc_sync("worker2", print, args=(rref, Unreadable()))
    except Exception:
        print("handled")


def run(rank):
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "29500")
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=3)
    if rank == 0:
        play()
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, nprocs=3)
