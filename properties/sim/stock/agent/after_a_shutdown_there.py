"""A call to a worker that has shut down."""

import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def slow(seconds):
    time.sleep(seconds)
    return seconds


def run(rank):
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    if rank == 1:
        time.sleep(1.0)
        rpc.shutdown(graceful=False)
        return
    rpc.rpc_sync("w1", slow, args=(0.0,))
    refused = 0
    while refused < 2:
        try:
            rpc.rpc_sync("w1", slow, args=(0.1,), timeout=30)
        except Exception as error:
            refused += 1
            print(f"w0: {type(error).__name__}: {error}", flush=True)
    rpc.shutdown(graceful=False)
    print("w0: has shut down", flush=True)


if __name__ == "__main__":
    mp.spawn(run, nprocs=2)
