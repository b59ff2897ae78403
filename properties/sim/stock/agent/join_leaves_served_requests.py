"""Shutdown does not wait for a request whose caller has given up."""

import time

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def slow(seconds):
    time.sleep(seconds)
    return seconds


KEPT = []


@rpc.functions.async_execution
def never():
    KEPT.append(torch.futures.Future())
    return KEPT[0]


def run(rank):
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    if rank == 0:
        try:
            rpc.rpc_sync("w1", never, timeout=0.5)
        except RuntimeError as error:
            print("w0:", error, flush=True)
    rpc.shutdown()
    print(f"w{rank}: has shut down", flush=True)


if __name__ == "__main__":
    mp.spawn(run, nprocs=2)
