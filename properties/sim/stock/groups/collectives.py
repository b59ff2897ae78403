"""Every collective of tensors and objects, in a group of all and in one of some."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def show(what, *values):
    print(f"{RANK} {what}: {' '.join(str(getattr(v, 'tolist', lambda v=v: v)()) for v in values)}")


def attempt(what, function):
    try:
        show(what, function())
    except (RuntimeError, ValueError) as error:
        show(what, f"{type(error).__name__}: {str(error).splitlines()[0]}")


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    own = torch.tensor([RANK + 1, 2 * RANK + 1])
    for name in ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"):
        x = own.clone()
        dist.all_reduce(x, op=getattr(ReduceOp, name))
        show(f"all_reduce {name}", x)
    x = own.double()
    dist.all_reduce(x, op=ReduceOp.AVG)
    show("all_reduce AVG", x)
    attempt("bits of floats", lambda: dist.all_reduce(torch.ones(1), op=ReduceOp.BAND))
    x = own.clone()
    dist.broadcast(x, src=1)
    show("broadcast", x)
    x = own.clone()
    dist.reduce(x, dst=2)
    show("reduce", x if RANK == 2 else "elsewhere")
    into = [torch.zeros(2, dtype=torch.int64) for _ in range(SIZE)]
    dist.all_gather(into, own)
    show("all_gather", *into)
    whole = torch.zeros(2 * SIZE, dtype=torch.int64)
    dist.all_gather_into_tensor(whole, own)
    show("all_gather_into_tensor", whole)
    into = [torch.zeros(2, dtype=torch.int64) for _ in range(SIZE)] if RANK == 1 else None
    dist.gather(own, into, dst=1)
    show("gather", *(into or ()))
    x = torch.zeros(2)
    parts = [torch.full((2,), float(member)) for member in range(SIZE)] if RANK == 0 else None
    dist.scatter(x, parts, src=0)
    show("scatter", x)
    x = torch.zeros(2)
    dist.reduce_scatter(x, [torch.full((2,), float(RANK + m)) for m in range(SIZE)])
    show("reduce_scatter", x)
    x = torch.zeros(2)
    dist.reduce_scatter_tensor(x, torch.arange(2.0 * SIZE) + RANK)
    show("reduce_scatter_tensor", x)
    outs = [torch.zeros(1) for _ in range(SIZE)]
    dist.all_to_all(outs, [torch.tensor([10.0 * RANK + m]) for m in range(SIZE)])
    show("all_to_all", *outs)
    x = torch.zeros(SIZE)
    dist.all_to_all_single(x, torch.arange(float(SIZE)) + 10 * RANK)
    show("all_to_all_single", x)
    objects = [None] * SIZE
    dist.all_gather_object(objects, {"rank": RANK})
    show("all_gather_object", objects)
    objects = ["a", 1, None] if RANK == 0 else [None] * 3
    dist.broadcast_object_list(objects, src=0)
    show("broadcast_object_list", objects)
    objects = [None] * SIZE if RANK == 0 else None
    dist.gather_object(f"from {RANK}", objects, dst=0)
    show("gather_object", objects)
    got = [None]
    dist.scatter_object_list(got, [f"to {m}" for m in range(SIZE)] if RANK == 0 else None, src=0)
    show("scatter_object_list", got)
    x = own.clone()
    work = dist.all_reduce(x, async_op=True)
    (y,) = work.get_future().wait()
    show("async_op", x, y, work.wait())
    dist.monitored_barrier()
    some = dist.new_group([0, 2])
    x = own.clone()
    if RANK != 1:
        dist.all_reduce(x, group=some)
        show("new_group", x, dist.get_rank(some), dist.get_world_size(some))
    else:
        show("new_group", dist.get_rank(some))
    for dtype in (torch.bfloat16, torch.bool, torch.complex64, torch.uint8):
        x = torch.tensor([RANK, 1]).to(dtype)
        dist.broadcast(x, src=2)
        show(str(dtype), x)
    x = torch.zeros(2, 0)
    dist.broadcast(x, src=2)
    show("an empty one", x)
    x = torch.arange(6.0).reshape(2, 3).t() + RANK
    dist.broadcast(x, src=2)
    show("not contiguous", x)
    dist.barrier()
    show("state", dist.is_initialized(), dist.get_backend())
    dist.destroy_process_group()
    show("state", dist.is_initialized())
    attempt("after the end", lambda: dist.barrier())
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29512", rank=RANK, world_size=SIZE)
    x = own.clone()
    dist.all_reduce(x)
    show("again", x)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
