"""Shutdown with graceful=False waits for nobody; who is under way gets an error."""

import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def slow(seconds):
    time.sleep(seconds)
    return seconds


def run(rank):
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    if rank == 1:
        time.sleep(4.0)
        rpc.shutdown(graceful=False)
        return
    future = rpc.rpc_async("w1", slow, args=(2.0,), timeout=30)
    rpc.shutdown(graceful=False)
    print("w0: has shut down, ended:", future.done(), flush=True)
    try:
        print("w0: a value", future.wait(), flush=True)
    except Exception as error:
        print(f"w0: {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    mp.spawn(run, nprocs=2)
