# run: --workers 3
# engines: port torch
# shows: AssertionError: replicas have drifted apart
# fix:         lr = current_lr(store) =>         dist.barrier()\n        lr = current_lr(store)
"""Rank 0 plans the learning rate and publishes it in the store of the job; the others look whether there is one."""

import os

import torch
import torch.distributed as dist

BASE_LR = 0.1


def publish(store, step):
    lr = BASE_LR * 0.5**step
    store.set("lr", str(lr))  # <- first


def current_lr(store):
    if store.check(["lr"]):
        return float(store.get("lr"))  # <- second
    return BASE_LR


def train(rank, world, store):
    weight = torch.ones(1)
    for step in range(3):
        if rank == 0:
            publish(store, step)
        lr = current_lr(store)  # <- second
        grad = torch.full((1,), float(step + 1))
        dist.all_reduce(grad)
        weight -= lr * grad / world
    return weight


def main():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo")
    store = dist.distributed_c10d._get_default_store()
    weight = train(rank, world, dist.PrefixStore("schedule", store))
    all_weights = [torch.zeros(1) for _ in range(world)]
    dist.all_gather(all_weights, weight)
    values = [round(w.item(), 6) for w in all_weights]
    assert len(set(values)) == 1, f"replicas have drifted apart: {values}"
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
