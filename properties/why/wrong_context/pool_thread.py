# run: --workers 3
# engines: port torch
# shows: (RuntimeError: .*require|AssertionError: \w+ has no gradient)
# always: yes
# fix: parts = list(pool.map(lambda name: half(name, x), ("left", "right"))) => parts = [half(name, x) for name in ("left", "right")]
"""Both halves of a model are asked at the same time, from a pool of threads."""

import os
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc

SIDES = ("driver", "left", "right")


def square(x):
    return x.square()


def half(name, x):
    return rpc.rpc_sync(name, square, args=(x,))


def step(pool, x, bias):
    with dist_autograd.context() as context_id:
        parts = list(pool.map(lambda name: half(name, x), ("left", "right")))  # <- at fault
        loss = (sum(parts) + bias).sum()
        dist_autograd.backward(context_id, [loss])
        gradients = dist_autograd.get_gradients(context_id)
    for name, tensor in (("bias", bias), ("input", x)):
        assert tensor in gradients, f"{name} has no gradient"
    return gradients[x]


if __name__ == "__main__":
    rank = int(os.environ["RANK"])
    rpc.init_rpc(SIDES[rank], rank=rank, world_size=3)
    if rank == 0:
        bias = torch.zeros(3, requires_grad=True)
        with ThreadPoolExecutor(2) as pool:
            for n in range(2):
                gradient = step(pool, torch.full((3,), float(n), requires_grad=True), bias)
                assert gradient.tolist() == [4.0 * n] * 3
    rpc.shutdown()
