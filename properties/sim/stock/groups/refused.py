"""What gloo refuses, and what it does with sparse tensors."""

from functools import partial

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp


def say(name, call):
    dist.barrier()
    try:
        value = call()
    except Exception as error:
        value = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    print(f"R{rank} {name} {value}", flush=True)


def reduced(op, dtype, root):
    values = torch.full((2,), rank + 1).to(dtype)
    if root is None:
        dist.all_reduce(values, op=op)
        return values.tolist()
    dist.reduce(values, root, op=op)
    return values.tolist() if rank == root else None


def uneven():
    into = [torch.zeros(1 + at) for at in range(size)]
    dist.all_gather(into, torch.ones(1 + rank))
    return [each.tolist() for each in into]


def other_type():
    into = [torch.zeros(1, dtype=torch.int64) for _ in range(size)]
    dist.all_gather(into, torch.ones(1))
    return [each.tolist() for each in into]


def gathered(shape):
    into = torch.zeros(shape)
    dist.all_gather_into_tensor(into, torch.full((2,), float(rank)))
    return into.tolist()


def sparse():
    values = torch.sparse_coo_tensor([[0, rank]], [1.0, 2.0], (4,))
    dist.all_reduce(values)
    return values.to_dense().tolist()


def scattered():
    try:
        dist.reduce_scatter_tensor(torch.zeros(2), torch.ones(2 * size + 1))
    except RuntimeError as error:
        return (
            str(error).partition("Check failed: ")[2].strip()
        )  # stock says the time and a line before


dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
for op in ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"):
    for dtype in (torch.float32, torch.int64, torch.bool):
        for root in (None, 1):
            say(f"{op} {dtype} {root}", partial(reduced, getattr(ReduceOp, op), dtype, root))
say("premul", lambda: dist.all_reduce(torch.ones(1), op=dist._make_nccl_premul_sum(2.0)))
for call in (uneven, other_type, sparse, scattered):
    say(call.__name__, call)
for name in ("broadcast", "reduce", "gather", "scatter"):
    own = () if name in ("broadcast", "reduce") else (None,)
    for root in (-1, 7):
        say(f"{name} {root}", partial(getattr(dist, name), torch.ones(1), *own, root))
say("tag", lambda: dist.send(torch.ones(1), (rank + 1) % size, tag=-1))
for shape in ((2 * size,), (size, 2)):
    say(f"gathered {len(shape)}", partial(gathered, shape))
dist.destroy_process_group()
