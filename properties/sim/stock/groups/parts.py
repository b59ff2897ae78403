"""Sizes that ``all_to_all`` takes."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
for outputs, inputs in (
    ((1, 1, 1), (1, 2, 1)),
    ((1, 2, 1), (1, 1, 1)),
    ((2, 2, 2), (1, 1, 1)),
    ((2, 2, 2), (2, 2, 2)),
):
    into = [torch.zeros(each) for each in outputs]
    try:
        dist.all_to_all(into, [torch.full((each,), float(rank)) for each in inputs])
        told = [each.tolist() for each in into]
    except RuntimeError as error:
        told = str(error).splitlines()[0]
    print(rank, outputs, inputs, told, flush=True)
dist.destroy_process_group()
