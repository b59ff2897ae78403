# run: --workers 3
# engines: port torch
# shows: AssertionError: rank \d has a norm of
# fix: dist.all_reduce(total, async_op=True) => dist.all_reduce(total)
"""Gradients are clipped by the norm over all ranks, which is summed while the next batch loads."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def load(step):
    return torch.arange(4.0) + step


def total_norm(gradient):
    total = gradient.square().sum()
    work = dist.all_reduce(total, async_op=True)  # <- at fault
    load(1)
    return total.sqrt().item()


def main(rank, size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "29561"
    dist.init_process_group("gloo", rank=rank, world_size=size)
    for step in range(2):
        gradient = torch.full((4,), float(rank + 1))
        norm = total_norm(gradient)
        expected = (4 * sum(n * n for n in range(1, size + 1))) ** 0.5
        assert abs(norm - expected) < 1e-4, f"rank {rank} has a norm of {norm}, not {expected}"
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(main, args=(3,), nprocs=3)
