"""fastai: maybe_gather, rank0_first."""

import torch
import torch.distributed as dist
from fastai.distributed import rank0_first
from fastai.torch_core import maybe_gather, num_distrib, rank_distrib

dist.init_process_group("gloo")
rank = rank_distrib()
print(rank, num_distrib(), maybe_gather(torch.tensor([[rank + 1.0]])).tolist())
print(rank, rank0_first(lambda: "made"))
dist.destroy_process_group()
