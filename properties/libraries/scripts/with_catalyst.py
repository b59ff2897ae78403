"""catalyst: sum_reduce, mean_reduce."""

import os

import torch
import torch.distributed as dist
from catalyst.utils.distributed import get_rank, mean_reduce, sum_reduce

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("gloo")
print(
    get_rank(), sum_reduce(torch.tensor(rank + 1.0)), mean_reduce(torch.tensor(rank + 1.0), world)
)
dist.destroy_process_group()
