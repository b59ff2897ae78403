"""A timeout of 25 days or more, or without an end, is over at once."""

import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def run(rank):
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    if rank == 0:
        for timeout in (2.1e6, 2.2e6, float("inf")):
            try:
                # long enough that the answer does not come before the limit is looked at
                rpc.rpc_sync("w1", time.sleep, args=(1,), timeout=timeout)
                print(f"w0: {timeout}: in time", flush=True)
            except RuntimeError as error:
                print(f"w0: {timeout}: {error}", flush=True)
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, nprocs=2)
