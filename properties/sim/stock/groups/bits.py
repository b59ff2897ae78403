"""Sums to the last bit: they depend on the order in which a backend adds what the ranks have."""

import hashlib
import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()


def bits(tensor: torch.Tensor) -> str:
    return hashlib.md5(tensor.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()[:8]


def show(*what: object) -> None:
    sys.stdout.write(" ".join(map(str, (rank, *what))) + "\n")
    sys.stdout.flush()


for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
    for elements in (1, 5, 1000, 70001):
        whole = torch.arange(elements, dtype=torch.int64) * 7919 * (rank + 3) % 10007
        values = (whole.double() / 997).to(dtype)
        found = []
        for op in (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT):
            each = values.clone()
            dist.all_reduce(each, op)
            found.append(bits(each))
        each = values.clone()
        dist.reduce(each, 1)
        if rank == 1:
            found.append(bits(each))
        part = elements // size
        if part:
            output = torch.empty(part, dtype=dtype)
            dist.reduce_scatter(output, list(values[: part * size].clone().chunk(size)))
            found.append(bits(output))
        show(dtype, elements, *found)
dist.destroy_process_group()
