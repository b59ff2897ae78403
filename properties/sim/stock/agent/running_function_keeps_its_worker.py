"""A function that still runs keeps its worker, though its caller has given up."""

import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def slow(seconds):
    time.sleep(seconds)
    return seconds


def working(seconds):
    time.sleep(seconds)
    print("w1: the function has ended", flush=True)


def run(rank):
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    if rank == 0:
        try:
            rpc.rpc_sync("w1", working, args=(2.0,), timeout=0.5)
        except RuntimeError:
            print("w0: gave up", flush=True)
    rpc.shutdown()
    print(f"w{rank}: has shut down", flush=True)


if __name__ == "__main__":
    mp.spawn(run, nprocs=2)
