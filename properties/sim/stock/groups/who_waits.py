"""A member that is done with its part goes on, whether others have come or not; who needs them waits."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist

RANK = int(os.environ["RANK"])


def after(first, *given):
    """Rank 1 calls it and then sends to rank 2, which calls it only when it has that."""
    note = torch.zeros(1)
    if RANK == 2:
        dist.recv(note, 1)
    first(*given)
    if RANK == 1:
        dist.send(torch.ones(1), 2)
    dist.barrier()


def monitored(limit_s, all_of_them, missing):
    try:
        if RANK in missing:
            dist.barrier()
        else:
            dist.monitored_barrier(timeout=timedelta(seconds=limit_s), wait_all_ranks=all_of_them)
            print(RANK, "monitored", missing, "passed")
            dist.barrier()
    except RuntimeError as error:
        if RANK == 0:
            print(RANK, "monitored", missing, str(error).splitlines()[0])


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=5))
    x = torch.full((2,), float(RANK))
    after(dist.broadcast, x, 0)
    print(RANK, "broadcast", x.tolist())
    parts = [torch.full((2,), float(n)) for n in range(3)] if RANK == 0 else None
    after(dist.scatter, x, parts, 0)
    print(RANK, "scatter", x.tolist())
    got = [None]
    dist.scatter_object_list(got, ["x", "y", "z"] if RANK == 0 else None, 0)
    print(RANK, "objects", got)
    if RANK == 0:
        dist.send_object_list([{"a": 1}, None], 1)
    elif RANK == 1:
        told = [0, 0]
        dist.recv_object_list(told, 0)
        print(RANK, "objects sent", told)
    gathered = [torch.zeros(2) for _ in range(3)] if RANK == 0 else None
    dist.gather(x, gathered, 0)
    if RANK == 0:
        print(RANK, "gather", [each.tolist() for each in gathered])
    sent = dist.isend(x, (RANK + 1) % 3)
    print(RANK, "a send before somebody receives", sent.is_completed())
    y = torch.zeros(2)
    dist.recv(y, (RANK - 1) % 3)
    sent.wait()
    print(RANK, "after it", sent.is_completed(), y.tolist())
    monitored(2, False, [])
    monitored(1, True, [1, 2])


main()
