"""A call to a worker that dies meanwhile, and one after that."""

import os
import signal
import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def slow(seconds):
    time.sleep(seconds)
    return seconds


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def run(rank):
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    if rank == 1:
        time.sleep(60.0)
    for function in (die, slow):
        try:
            rpc.rpc_sync("w1", function, timeout=30)
        except Exception as error:
            print(f"w0: {type(error).__name__}: {error}", flush=True)
    rpc.shutdown(graceful=False)
    print("w0: has shut down", flush=True)


if __name__ == "__main__":
    mp.spawn(run, nprocs=2)
