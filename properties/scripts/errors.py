"""What goes wrong, and what one is told."""

import os
import pickle

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch.autograd import Function


class AppError(Exception):
    pass


class PickyError(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


class Refuse(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        raise ValueError("refused to go back")


def fail(kind):
    if kind == "picky":
        raise PickyError(1, 2)
    raise {"value": ValueError, "type": TypeError, "app": AppError, "key": KeyError}[kind]("oh no")


def refuse(x):
    return Refuse.apply(x)


def nested_fail(to):
    return rpc.rpc_sync(to, fail, args=("value",))


def first_line(e):
    text = str(e).replace("\\n", "\n").splitlines()[0].split(" (Exception")[0]
    return f"{type(e).__name__}: {text}"


def attempt(title, fn):
    try:
        value = fn()
        print(title, "->", value)
    except Exception as e:
        first = first_line(e).replace("mm: mat1", "mat1")  # before torch 2.12
        print(title, "->", first, "|", "oh no" in str(e), isinstance(e, AppError))


def backward_refused():
    x = torch.ones(2, requires_grad=True)
    with dist_autograd.context() as cid:
        y = rpc.rpc_sync("worker1", refuse, args=(x,))
        try:
            dist_autograd.backward(cid, [y.sum()])
        except RuntimeError as e:
            return type(e).__name__, "refused to go back" in str(e), str(e)[:23]


def bad_roots():
    x = torch.ones(2, requires_grad=True)
    with dist_autograd.context() as cid:
        attempt("no roots", lambda: dist_autograd.backward(cid, []))
        attempt("no grad", lambda: dist_autograd.backward(cid, [torch.ones(())]))
        attempt("not scalar", lambda: dist_autograd.backward(cid, [x * 2]))
        attempt("leaf", lambda: dist_autograd.backward(cid, [torch.ones((), requires_grad=True)]))
        attempt("None", lambda: dist_autograd.backward(cid, None))
    attempt("context", lambda: dist_autograd.backward(4242, [(x * 2).sum()]))
    attempt("context", lambda: dist_autograd.get_gradients(4242))


def run(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ.setdefault("MASTER_PORT", "29513")
    if rank == 0:
        attempt("before init", lambda: rpc.rpc_sync("worker1", torch.add, args=(1, 2)))
        attempt("before init", lambda: rpc.get_worker_info("worker1"))
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size)
    if rank == 0:
        for kind in ("value", "type", "app", "key", "picky"):
            attempt(f"rpc_sync {kind}", lambda kind=kind: rpc.rpc_sync("worker1", fail, (kind,)))
            attempt(f"rpc_async {kind}", rpc.rpc_async("worker1", fail, (kind,)).wait)
            attempt(f"remote {kind}", rpc.remote("worker1", fail, (kind,)).to_here)
        attempt("nested", lambda: rpc.rpc_sync("worker1", nested_fail, args=("worker0",)))
        attempt("builtin", lambda: rpc.rpc_sync("worker1", torch.mm, (torch.ones(2, 3),) * 2))
        attempt("unknown", lambda: rpc.rpc_sync("worker9", fail, args=("value",)))
        try:
            rpc.rpc_sync("worker1", lambda: 1)
        except (AttributeError, pickle.PicklingError) as e:
            print("unpicklable", "local object" in str(e))
        try:
            rpc.rpc_sync("worker1", torch.add, (1, 1), timeout="1")
        except TypeError:
            print("bad timeout")
        attempt("again", lambda: rpc.init_rpc("worker0", rank=0, world_size=2))
        rref = rpc.remote("worker1", torch.mm, (torch.ones(2, 3),) * 2)
        attempt("remote builtin", rref.to_here)
        attempt("local_value", rpc.remote("worker1", torch.add, (torch.ones(1), 1)).local_value)
        print("backward", backward_refused())
        bad_roots()
        print("still alive", rpc.rpc_sync("worker1", torch.add, args=(torch.ones(2), 1)).tolist())
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=(2,), nprocs=2, join=True)
