# run: --workers 3
# engines: port torch
# shows: ranks still wait|AssertionError|Timed out|collective
# always: yes
# fix: dist.all_reduce(total) => dist.all_reduce(total, group=trainers)
"""Rank 0 evaluates, the others train and sum their gradients among themselves."""

from datetime import timedelta

import torch
import torch.distributed as dist

EVALUATOR = 0


def train_step(rank, trainers):
    total = torch.full((2,), float(rank))
    dist.all_reduce(total)  # <- at fault
    return total / dist.get_world_size(trainers)


def evaluate(scores):
    dist.recv(scores, src=1)
    return scores.mean().item()


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=30))
    rank, size = dist.get_rank(), dist.get_world_size()
    trainers = dist.new_group([n for n in range(size) if n != EVALUATOR])
    scores = torch.zeros(2)
    if rank == EVALUATOR:
        print("score", evaluate(scores))
    else:
        mean = train_step(rank, trainers)
        assert mean.tolist() == [1.5, 1.5], f"rank {rank} has {mean.tolist()}"
        if rank == 1:
            dist.send(mean, dst=EVALUATOR)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
