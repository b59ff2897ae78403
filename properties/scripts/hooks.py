"""Hooks on tensors and parameters of two workers."""

import os

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch.autograd.graph import register_multi_grad_hook

log = []
weight = torch.nn.Parameter(torch.tensor([2.0, 3.0]))


def note(name, factor=None):
    def hook(grad):
        log.append((name, grad.tolist()))
        return None if factor is None else grad * factor

    return hook


weight.register_hook(note("weight", 10))


def forward(x):
    y = x * weight
    y.register_hook(note("product"))
    y.register_hook(note("product again", 2))
    return y


def take():
    taken = list(log)
    log.clear()
    return taken


def gradient(context_id):
    return dist_autograd.get_gradients(context_id)[weight].tolist()


def run(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ.setdefault("MASTER_PORT", "29512")
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size)
    if rank == 0:
        x = torch.tensor([1.0, 1.0], requires_grad=True)
        x.register_hook(note("x"))
        for _ in range(2):
            with dist_autograd.context() as cid:
                sent = x * 1
                handle = sent.register_hook(note("sent", 3))
                y = rpc.rpc_sync("worker1", forward, args=(sent,))
                y.register_hook(note("received"))
                y.grad_fn.register_hook(lambda gi, go: log.append(("recv", len(gi), len(go))))
                loss = (y * torch.tensor([1.0, 2.0])).sum()
                loss.grad_fn.register_hook(lambda gi, go: log.append("sum"))
                dist_autograd.backward(cid, [loss])
                handle.remove()
                print(dist_autograd.get_gradients(cid)[x].tolist())
                print(rpc.rpc_sync("worker1", gradient, args=(cid,)))
                print(sorted(map(str, take())))
                print(rpc.rpc_sync("worker1", take))
        with dist_autograd.context() as cid:
            y = rpc.rpc_sync("worker1", forward, args=(x,))
            y.retain_grad()
            dist_autograd.backward(cid, [y.sum()])
            print("retained", y.grad)
            rpc.rpc_sync("worker1", take)
        with dist_autograd.context() as cid:
            a, b = x * 2, x * 3
            y = rpc.rpc_sync("worker1", forward, args=(a + b,))
            seen = []
            register_multi_grad_hook((a, b), lambda grads: seen.append([g.tolist() for g in grads]))
            dist_autograd.backward(cid, [y.sum()])
            print("several", seen, len(rpc.rpc_sync("worker1", take)))
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=(2,), nprocs=2, join=True)
