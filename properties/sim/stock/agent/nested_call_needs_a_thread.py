"""A reply needs a thread of the pool, as the function does that waits for it."""

import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def slow(seconds):
    time.sleep(seconds)
    return seconds


def nested(looks):
    future = rpc.rpc_async("w0", slow, args=(0.0,))
    for _ in range(looks):
        if future.done():
            return "answered"
        time.sleep(0.1)
    return "no thread for the answer"


def run(rank):
    for threads, looks in ((1, 20), (2, 1000)):
        options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=threads)
        rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
        if rank == 0:
            print(f"w0: {threads}:", rpc.rpc_sync("w1", nested, args=(looks,)), flush=True)
        rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, nprocs=2)
