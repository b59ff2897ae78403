# run: --workers 2 --faults rough
# engines: port torch
# shows: AssertionError: steps applied twice: \[\d
# fix: applied.append(step) => applied.append(step) if step not in applied else None
"""A client numbers its updates and sends each until the server has answered."""

import os

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

weights = torch.zeros(4)
applied = []


def update(step, gradient):
    applied.append(step)  # <- at fault
    weights.sub_(0.1 * gradient)
    return weights


def send(step):
    for _attempt in range(5):
        try:
            return rpc.rpc_sync("server", update, args=(step, torch.ones(4)), timeout=1)
        except RuntimeError:  # lost, or late: once more
            pass
    return None


def main(rank, world_size):
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "29521")
    rpc.init_rpc("server" if rank == 0 else "client", rank=rank, world_size=world_size)
    if rank == 1:
        for step in range(6):
            send(step)
    rpc.shutdown()
    if rank == 0:
        twice = sorted({step for step in applied if applied.count(step) > 1})
        assert not twice, f"steps applied twice: {twice}"


if __name__ == "__main__":
    mp.spawn(main, args=(2,), nprocs=2)
