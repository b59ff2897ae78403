"""Activation checkpointing and saved-tensor hooks in the graph of another worker."""

import os

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

weight = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
runs = []
unpacked = []


def block(x):
    runs.append("block")
    y = torch.tanh(x @ weight) * 2
    return y * y


def checkpointed(x):
    return checkpoint(block, x, use_reentrant=False)


def pack(t):
    return t.clone()


def unpack(t):
    unpacked.append(tuple(t.shape))
    return t


def hooked(x):
    with saved_tensors_hooks(pack, unpack):
        y = x * weight
    return y * y


def report(context_id):
    grad = dist_autograd.get_gradients(context_id)[weight]
    return [[round(v, 5) for v in row] for row in grad.tolist()], runs, sorted(unpacked)


def run(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ.setdefault("MASTER_PORT", "29518")
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size)
    if rank == 0:
        x = torch.tensor([[0.5, -0.5], [0.25, 1.0]], requires_grad=True)
        for part in (checkpointed, hooked):
            with dist_autograd.context() as context_id:
                y = rpc.rpc_sync("worker1", part, args=(x,))
                dist_autograd.backward(context_id, [y.sum()])
                grad = dist_autograd.get_gradients(context_id)[x]
                print([[round(v, 5) for v in row] for row in grad.tolist()])
                print(rpc.rpc_sync("worker1", report, args=(context_id,)))
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=(2,), nprocs=2, join=True)
