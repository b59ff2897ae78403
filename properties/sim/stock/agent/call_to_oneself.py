"""A call to oneself: its thread, and whether its argument is copied."""

import threading
import time

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def slow(seconds):
    time.sleep(seconds)
    return seconds


HERE = torch.zeros(1)


def add(tensor):
    tensor += 1
    print("w0: the same thread:", threading.get_ident() == CALLER[0], flush=True)
    return tensor


CALLER = []


def run(rank):
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    if rank == 0:
        CALLER.append(threading.get_ident())
        there = rpc.rpc_sync("w0", add, args=(HERE,))
        print("w0:", HERE.item(), there.item(), there is HERE, flush=True)
        print("w0:", rpc.remote("w0", add, args=(HERE,)).to_here().item(), HERE.item(), flush=True)
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, nprocs=2)
