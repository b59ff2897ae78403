# run: --workers 3
# engines: port torch
# shows: AssertionError: loss of rank 1 is 2.0
# fix: dist.recv(loss)  # <- at fault => dist.recv(loss, src=rank)
"""Rank 0 gathers the loss of each other rank, and takes the one that comes first for that of rank 1."""

import torch
import torch.distributed as dist


def evaluate(rank):
    return torch.tensor([float(rank)])


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        losses = {}
        for rank in range(1, size):
            loss = torch.zeros(1)
            dist.recv(loss)  # <- at fault
            losses[rank] = loss.item()
        for rank, loss in losses.items():
            assert loss == rank, f"loss of rank {rank} is {loss}"
    else:
        dist.send(evaluate(rank), dst=0)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
