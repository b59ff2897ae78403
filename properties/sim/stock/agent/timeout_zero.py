"""A timeout of 0 is none; a call without one has that of the group."""

import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def slow(seconds):
    time.sleep(seconds)
    return seconds


def run(rank):
    options = rpc.TensorPipeRpcBackendOptions(rpc_timeout=0.5)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        print("w0:", rpc.rpc_sync("w1", slow, args=(1.0,), timeout=0), flush=True)
        for timeout in (-1, -2, 0.0001):
            try:
                print("w0:", rpc.rpc_sync("w1", slow, args=(1.0,), timeout=timeout), flush=True)
            except RuntimeError as error:
                print(f"w0: {timeout}: {error}", flush=True)
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, nprocs=2)
