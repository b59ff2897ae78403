# run: --workers 2
# engines: port torch
# shows: AssertionError: rank 1 used \[0.1, 0.1.*\], the schedule is
# fix: dist.barrier()\n        if rank == 0:\n            store.set("lr", str(SCHEDULE[epoch])) => if rank == 0:\n            store.set("lr", str(SCHEDULE[epoch]))\n        dist.barrier()
"""Rank 0 decides on the learning rate of each epoch, the other one reads it from a store."""

import datetime
import os

import torch
import torch.distributed as dist

SCHEDULE = [0.1, 0.05, 0.01]


def epochs(rank, store):
    used = []
    weight = torch.ones(2)
    for epoch in range(len(SCHEDULE)):
        dist.barrier()
        if rank == 0:
            store.set("lr", str(SCHEDULE[epoch]))  # <- first
        lr = float(store.get("lr"))  # <- second
        used.append(lr)
        gradient = torch.ones(2) * (rank + 1)
        dist.all_reduce(gradient)
        weight -= lr * gradient
    return used


def main():
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    rank = dist.get_rank()
    store = dist.TCPStore(os.environ["MASTER_ADDR"], 29700, 2, rank == 0)
    used = epochs(rank, store)
    assert used == SCHEDULE, f"rank {rank} used {used}, the schedule is {SCHEDULE}"
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
