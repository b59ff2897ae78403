"""torchtnt: all_gather_tensors, sync_bool, rank_zero_fn."""

import os

import torch
import torch.distributed as dist
from torchtnt.utils.distributed import (
    all_gather_tensors,
    get_global_rank,
    get_world_size,
    rank_zero_fn,
    sync_bool,
)

rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
print(
    get_global_rank(),
    get_world_size(),
    [each.tolist() for each in all_gather_tensors(torch.arange(rank + 2.0))],
)
print(rank, sync_bool(rank == 0, coherence_mode="any"), sync_bool(rank == 0, coherence_mode="all"))
rank_zero_fn(lambda: print("only here"))()
dist.destroy_process_group()
