# run: --workers 3
# engines: port torch
# shows: AssertionError: rank \d has
# always: yes
# fix: in metrics.items() => in sorted(metrics.items())
"""Metrics are reduced by name, and each rank has them in an order of its own."""

import os

import torch
import torch.distributed as dist


def collect(rank):
    metrics = {"loss": torch.tensor([1.0 + rank])}
    if rank == 0:
        metrics["lr"] = torch.tensor([0.1])
        metrics["tokens"] = torch.tensor([100.0])
    else:
        metrics["tokens"] = torch.tensor([100.0])
        metrics["lr"] = torch.tensor([0.1])
    return metrics


def reduce_metrics(metrics, world):
    result = {}
    for name, value in metrics.items():  # <- at fault
        value = value.clone()
        dist.all_reduce(value)  # <- at fault
        result[name] = value.item() if name == "tokens" else value.item() / world
    return result


def main():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo")
    result = reduce_metrics(collect(rank), world)
    assert abs(result["lr"] - 0.1) < 1e-6, f"rank {rank} has {result}"
    assert result["tokens"] == 100.0 * world
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
