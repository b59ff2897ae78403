"""Tensors inside structures, sent twice, with and without grad, of many dtypes."""

import dataclasses
import os
from collections import namedtuple

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

Pair = namedtuple("Pair", ["left", "right"])


@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    mask: torch.Tensor
    meta: dict


def twice(a, b, scale=1.0):
    return (a + b) * scale


def process(batch):
    return {
        "masked": batch.x * batch.mask,
        "pair": Pair(batch.x.sum(), batch.mask.sum()),
        "list": [batch.x[0], [batch.x[1] * 2], batch.meta["k"]],
        "meta": {**batch.meta, "shape": tuple(batch.x.shape)},
    }


def views(x):
    return x[0], x[1], x.t(), x.view(-1)[::2]


def in_place(x):
    y = x * 2
    y[0] += 1
    y.mul_(3)
    return y


def mixed(a, b, c):
    return a * 2, b, c


def run(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ.setdefault("MASTER_PORT", "29514")
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size)
    if rank == 0:
        x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        with dist_autograd.context() as cid:
            y = rpc.rpc_sync("worker1", twice, args=(x, x), kwargs={"scale": 3.0})
            z = rpc.rpc_sync("worker1", twice, args=(x, y))
            dist_autograd.backward(cid, [z.sum()])
            print("twice", dist_autograd.get_gradients(cid)[x].tolist())
        with dist_autograd.context() as cid:
            batch = Batch(x * 2, torch.tensor([[1, 0], [0, 1]]), {"k": x * 5, "n": 3, "s": "text"})
            out = rpc.rpc_sync("worker1", process, args=(batch,))
            print(
                out["pair"].right, out["pair"].left.requires_grad, out["pair"].right.requires_grad
            )
            print(type(out["pair"]).__name__, out["meta"]["shape"], out["meta"]["n"])
            loss = out["masked"].sum() + out["pair"].left + out["list"][1][0].sum()
            loss = loss + out["list"][2].prod()
            dist_autograd.backward(cid, [loss])
            print("process", dist_autograd.get_gradients(cid)[x].tolist())
        with dist_autograd.context() as cid:
            a, b, c, d = rpc.rpc_sync("worker1", views, args=(x,))
            loss = a.sum() + 2 * b.sum() + 3 * c[0].sum() + 4 * d.sum()
            dist_autograd.backward(cid, [loss])
            print("views", dist_autograd.get_gradients(cid)[x].tolist())
        with dist_autograd.context() as cid:
            y = rpc.rpc_sync("worker1", in_place, args=(x,))
            y *= 2
            dist_autograd.backward(cid, [y.sum()])
            print("in place", y.tolist(), dist_autograd.get_gradients(cid)[x].tolist())
        with dist_autograd.context() as cid:
            plain = torch.ones(2, 2)
            a, b, c = rpc.rpc_sync("worker1", mixed, args=(x, plain, torch.tensor([7])))
            print("mixed", a.requires_grad, b.requires_grad, c)
            dist_autograd.backward(cid, [(a * b).sum()])
            grads = dist_autograd.get_gradients(cid)
            print("mixed", len(grads), grads[x].tolist())
        for dtype in (torch.float64, torch.bfloat16, torch.float16, torch.complex64):
            with dist_autograd.context() as cid:
                t = torch.ones(3, dtype=dtype, requires_grad=True)
                y = rpc.rpc_sync("worker1", twice, args=(t, t))
                dist_autograd.backward(cid, [y.abs().sum().float() * 1.0])
                g = dist_autograd.get_gradients(cid)[t]
                print(dtype, g.dtype, g.tolist())
        with dist_autograd.context() as cid:
            t = torch.ones(0, 3, requires_grad=True)
            s = torch.tensor(2.0, requires_grad=True)
            y = rpc.rpc_sync("worker1", twice, args=(t, s))
            dist_autograd.backward(cid, [y.sum() + s * 3])
            g = dist_autograd.get_gradients(cid)
            print("empty", g[t].shape, g[s].item())
        p = rpc.rpc_sync("worker1", torch.nn.Parameter, args=(torch.ones(2),))
        print(type(p).__name__, p.is_leaf, p.requires_grad)
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=(2,), nprocs=2, join=True)
