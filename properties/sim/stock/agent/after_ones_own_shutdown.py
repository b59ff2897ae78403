"""Calls by a worker that has shut down."""

import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def slow(seconds):
    time.sleep(seconds)
    return seconds


def show(what):
    try:
        print("w0: a value", what(), flush=True)
    except Exception as error:
        print(f"w0: {type(error).__name__}: {error}", flush=True)


def run(rank):
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    rpc.shutdown()
    if rank == 0:
        show(lambda: rpc.rpc_sync("w1", slow, args=(0.0,)))
        show(lambda: rpc.remote("w1", slow, args=(0.0,)))
        show(rpc.get_worker_info)
        show(rpc.shutdown)


if __name__ == "__main__":
    mp.spawn(run, nprocs=2)
