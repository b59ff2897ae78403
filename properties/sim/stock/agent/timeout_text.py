"""The type and the text of a timeout, of a call and of a value that is fetched."""

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
    if rank == 0:
        show(lambda: rpc.rpc_sync("w1", slow, args=(1.0,), timeout=0.5))
        show(lambda: rpc.rpc_async("w1", slow, args=(1.0,), timeout=0.25).wait())
        show(lambda: rpc.remote("w1", slow, args=(1.0,)).to_here(timeout=0.5))
        rref = rpc.remote("w1", slow, args=(1.0,), timeout=0.5)
        time.sleep(2.0)
        show(lambda: rref.to_here())
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, nprocs=2)
