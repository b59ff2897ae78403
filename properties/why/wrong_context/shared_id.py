# run: --workers 2
# engines: port torch
# shows: (AssertionError: gradient|KeyError|Could not find autograd context|AssertionError: no gradient)
# fix: state["context"] = context_id => local.context = context_id
# fix: dist_autograd.get_gradients(state["context"]) => dist_autograd.get_gradients(local.context)
"""Two threads train models of their own, with one helper that reads gradients."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc

state = {}
local = threading.local()


def multiply(x, factor):
    return x * factor


def gradient_of(x):
    found = dist_autograd.get_gradients(state["context"])  # <- second
    assert x in found, f"no gradient of {x.tolist()}"
    return found[x]


def train(factor, steps=3):
    for _ in range(steps):
        x = torch.ones(2, requires_grad=True)
        with dist_autograd.context() as context_id:
            state["context"] = context_id  # <- first
            y = rpc.rpc_sync("worker1", multiply, args=(x, factor))
            dist_autograd.backward(context_id, [y.sum()])
            gradient = gradient_of(x)
            assert gradient.tolist() == [factor] * 2, f"gradient {gradient}, expected {factor}"


if __name__ == "__main__":
    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
    if rank == 0:
        with ThreadPoolExecutor(max_workers=2) as pool:
            for _ in pool.map(train, (2.0, 5.0)):
                print("a model is trained")
    rpc.shutdown()
