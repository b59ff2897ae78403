# run: --workers 4
# engines: port torch
# shows: (ValueError|RuntimeError|AssertionError|ranks still wait)
# always: yes
# fix: dist.broadcast(weights, src=0, group=groups[half]) => dist.broadcast(weights, src=2 * half, group=groups[half])
"""Two halves of a cluster train models of their own; the first rank of each half sends its weights."""

import torch
import torch.distributed as dist


def start_weights(rank):
    return torch.full((3,), 10.0 * (rank // 2)) if rank % 2 == 0 else torch.zeros(3)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    half = rank // 2
    weights = start_weights(rank)
    dist.broadcast(weights, src=0, group=groups[half])  # <- at fault
    assert weights.tolist() == [10.0 * half] * 3, f"rank {rank} has {weights.tolist()}"
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
