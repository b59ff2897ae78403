"""A function gives back a future that nobody completes."""

import os

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


@rpc.functions.async_execution
def never():
    return torch.futures.Future()


def play():
    try:
        rpc.rpc_sync("worker1", never, timeout=1)
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
