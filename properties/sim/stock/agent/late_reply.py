"""What comes after the timeout is dropped."""

import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def slow(seconds):
    time.sleep(seconds)
    return seconds


def run(rank):
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    if rank == 0:
        future = rpc.rpc_async("w1", slow, args=(1.0,), timeout=0.5)
        for _ in range(2):
            try:
                print("w0: a value", future.wait(), flush=True)
            except RuntimeError as error:
                print("w0:", error, flush=True)
            time.sleep(2.0)
        print("w0:", rpc.rpc_sync("w1", slow, args=(0.0,)), flush=True)
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, nprocs=2)
