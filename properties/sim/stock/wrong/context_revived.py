"""Calls are still on their way when their context is left."""

import os

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def double(x):
    return x * 2


def play():
    for _ in range(20):
        with dist_autograd.context():
            x = torch.ones(2, requires_grad=True)
            later = rpc.rpc_async("worker1", double, args=(x,))
        try:
            later.wait()
        except RuntimeError:
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
