"""Calls inside calls: worker0 -> worker1 -> worker2 -> worker0, all in one backward pass."""

import os

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

WORLD_SIZE = 3
weight = torch.full((3,), 1.0, dtype=torch.float64, requires_grad=True)


def set_weight(value):
    with torch.no_grad():
        weight.fill_(value)


def hop(x, left):
    y = x * weight
    if left == 0:
        return y
    target = (rpc.get_worker_info().id + 1) % WORLD_SIZE
    return rpc.rpc_sync(f"worker{target}", hop, args=(y, left - 1)) + y


def gradient(context_id):
    return dist_autograd.get_gradients(context_id).get(weight)


def run(rank, world_size):
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "29501")
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size)
    if rank == 0:
        for other in range(world_size):
            rpc.rpc_sync(f"worker{other}", set_weight, args=(other + 2.0,))
        x = torch.arange(1.0, 4.0, dtype=torch.float64, requires_grad=True)
        for depth in range(6):
            with dist_autograd.context() as context_id:
                loss = hop(x, depth).sum()
                dist_autograd.backward(context_id, [loss])
                print("depth", depth, "loss", loss.item())
                print("  x", dist_autograd.get_gradients(context_id)[x].tolist())
                for other in range(world_size):
                    grad = (
                        rpc.rpc_sync(f"worker{other}", gradient, args=(context_id,))
                        if (other <= depth)
                        else None
                    )
                    print(f"  worker{other}", None if grad is None else grad.tolist())
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=(WORLD_SIZE,), nprocs=WORLD_SIZE, join=True)
