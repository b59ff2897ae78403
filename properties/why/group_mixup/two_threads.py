# run: --workers 3
# engines: port
# shows: AssertionError: \(\d|called in another order
# fix: side.start()\n    weights_loop(rank, weights)\n => weights_loop(rank, weights)\n    side.start()\n
"""Weights and a schedule are broadcast again and again, each by a thread of its own, in one group."""

import os
import threading
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

WORLD = 3
STEPS = 4
PERIOD = 0.25


def weights_at(step):
    return torch.full((4,), 100.0 + step)


def schedule_at(step):
    return torch.tensor([0.1 / (step + 1), 0.9, 0.999, float(step)])


def sync(value, rank):
    buf = value.clone() if rank == 0 else torch.zeros(4)
    dist.broadcast(buf, src=0)
    return buf


def schedule_loop(rank, out):
    time.sleep(PERIOD / 2)
    for step in range(STEPS):
        out.append(sync(schedule_at(step), rank))  # <- at fault
        time.sleep(PERIOD)


def weights_loop(rank, out):
    for step in range(STEPS):
        out.append(sync(weights_at(step), rank))  # <- at fault
        time.sleep(PERIOD)


def run(rank, world):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = "29617"
    dist.init_process_group("gloo", rank=rank, world_size=world)
    dist.barrier()
    weights, schedule = [], []
    side = threading.Thread(target=schedule_loop, args=(rank, schedule))
    side.start()
    weights_loop(rank, weights)
    side.join()
    for step in range(STEPS):
        assert torch.equal(weights[step], weights_at(step)), (rank, step, weights[step])
        assert torch.equal(schedule[step], schedule_at(step)), (rank, step, schedule[step])
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(run, args=(WORLD,), nprocs=WORLD)
