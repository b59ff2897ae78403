"""A call to a name or a number that nobody has."""

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
        print(f"w0: {type(error).__name__}: {str(error).splitlines()[0]}", flush=True)


def run(rank):
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    if rank == 0:
        show(lambda: rpc.rpc_sync("nobody", slow, args=(0.0,)))
        show(lambda: rpc.rpc_sync(7, slow, args=(0.0,)))
        show(lambda: rpc.remote("nobody", slow, args=(0.0,)))
        show(lambda: rpc.get_worker_info("nobody"))
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, nprocs=2)
