"""A hook of a pass begins another one in the same context."""

import os

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def double(x):
    return x * 2


def play():
    with dist_autograd.context() as context:
        x = torch.ones(2, requires_grad=True)
        y = rpc.rpc_sync("worker1", double, args=(x,)).sum()

        def hook(grad):
            dist_autograd.backward(context, [y], retain_graph=True)

        z = y * 2
        z.register_hook(hook)
        try:
            dist_autograd.backward(context, [z], retain_graph=True)
        except RuntimeError:
            print("handled")


def run(rank):
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "29500")
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=3)
    if rank == 0:
        play()
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, nprocs=3)
