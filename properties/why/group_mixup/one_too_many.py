# run: --workers 3
# engines: port torch
# shows: [Tt]imed out
# always: yes
# fix: in range(world) => in range(world - 1)
"""Rank 0 receives a result of each worker in each round, and counts itself among them."""

import os

import torch
import torch.distributed as dist

RESULT, FAREWELL = 1, 2


def collect(world, rounds):
    total = torch.zeros(1)
    buffer = torch.zeros(1)
    for _ in range(rounds):
        for _ in range(world):  # <- at fault
            dist.recv(buffer, tag=RESULT)  # <- at fault
            total += buffer
    for rank in range(1, world):
        dist.recv(buffer, src=rank, tag=FAREWELL)
    return total.item()


def produce(rank, rounds):
    for number in range(rounds):
        dist.send(torch.tensor([float(rank * (number + 1))]), dst=0, tag=RESULT)
    dist.send(torch.zeros(1), dst=0, tag=FAREWELL)


def main():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo")
    if rank == 0:
        total = collect(world, rounds=2)
        expected = sum(r * n for r in range(1, world) for n in (1, 2))
        assert total == expected, (total, expected)
    else:
        produce(rank, rounds=2)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
