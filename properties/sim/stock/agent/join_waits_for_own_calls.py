"""Shutdown waits for the calls that this worker made."""

import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def slow(seconds):
    time.sleep(seconds)
    return seconds


def run(rank):
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    if rank == 0:
        future = rpc.rpc_async("w1", slow, args=(1.0,), timeout=30)
        future.then(lambda f: print("w0: the answer is", f.value(), flush=True))
    rpc.shutdown()
    if rank == 0:
        print("w0: has shut down, answered:", future.done(), flush=True)


if __name__ == "__main__":
    mp.spawn(run, nprocs=2)
