"""A pass fails on one worker, and another worker's part of it waits for ever."""

import os

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


class Broken(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        raise ValueError("broken")


def double(x):
    return x * 2


def through(x):
    return Broken.apply(rpc.rpc_sync("worker2", double, args=(x,)))


def play():
    try:
        with dist_autograd.context() as context:
            x = torch.ones(2, requires_grad=True)
            one = rpc.rpc_sync("worker2", double, args=(x,))
            other = rpc.rpc_sync("worker1", through, args=(x,))
            dist_autograd.backward(context, [(one + other).sum()])
    except RuntimeError as error:
        print("handled:", "broken" in str(error))


def run(rank):
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "29500")
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=3)
    if rank == 0:
        play()
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, nprocs=3)
