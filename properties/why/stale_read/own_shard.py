# run: --workers 3
# engines: port
# shows: AssertionError: \d+ of 30 numbers
# fix: time.sleep(0.1) => dist.barrier()
"""Each rank gives its numbers away by their remainder, writes some statistics, and sorts what it was given."""

import os
import threading
import time

import torch
import torch.distributed as dist
import torch.distributed.rpc as rpc

lock = threading.Lock()
shard = []


def put(numbers):
    with lock:
        shard.append(numbers)  # <- second


def main():
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo")
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size)
    mine = torch.arange(rank * 30, rank * 30 + 30)
    given = [rpc.rpc_async(f"worker{n}", put, args=(mine[mine % size == n],)) for n in range(size)]
    torch.futures.wait_all(given)
    time.sleep(0.1)
    numbers = torch.cat(shard).sort().values  # <- first
    dist.barrier()
    rpc.shutdown()
    assert len(numbers) == 30, f"{len(numbers)} of 30 numbers"


if __name__ == "__main__":
    main()
