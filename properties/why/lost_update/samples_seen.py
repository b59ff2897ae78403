# run: --workers 3
# engines: port torch
# shows: AssertionError: \d+ samples counted, 48 were trained
# fix: rpc.rpc_sync("ps", write_seen, args=(seen + BATCH,)) => rpc.rpc_sync("ps", add_seen, args=(BATCH,))
"""Two trainers tell a parameter server how many samples they have used."""

import os

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

BATCH = 8
STEPS = 3
progress = {"seen": 0}


def read_seen():
    return progress["seen"]


def write_seen(n):
    progress["seen"] = n


def add_seen(n):
    progress["seen"] += n


def train():
    weight = torch.zeros(4)
    for _ in range(STEPS):
        batch = torch.ones(BATCH, 4)
        weight += 0.1 * batch.mean(0)
        seen = rpc.rpc_sync("ps", read_seen)  # <- first
        rpc.rpc_sync("ps", write_seen, args=(seen + BATCH,))  # <- second
    return weight


def main(rank, world_size):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = "29501"
    rpc.init_rpc("ps" if rank == 0 else f"trainer{rank}", rank=rank, world_size=world_size)
    if rank == 0:
        trainers = [rpc.rpc_async(f"trainer{n}", train) for n in range(1, world_size)]
        torch.futures.wait_all(trainers)
        trained = (world_size - 1) * STEPS * BATCH
        assert progress["seen"] == trained, (
            f"{progress['seen']} samples counted, {trained} were trained"
        )
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(main, args=(3,), nprocs=3)
