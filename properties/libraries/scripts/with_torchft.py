"""torchft: DistributedSampler."""

import os

import torch
import torch.distributed as dist
from torchft.data import DistributedSampler

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("gloo")
sampler = DistributedSampler(
    list(range(8)), replica_rank=rank, num_replica_groups=world, group_rank=0, num_replicas=1
)
mine = list(sampler)
total = torch.tensor(mine).sum()
dist.all_reduce(total)
print(rank, mine, total.item())
dist.destroy_process_group()
