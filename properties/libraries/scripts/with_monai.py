"""monai: evenly_divisible_all_gather, string_list_all_gather, CumulativeAverage."""

import os

import torch
import torch.distributed as dist
from monai.data import partition_dataset
from monai.metrics import CumulativeAverage
from monai.utils import evenly_divisible_all_gather, string_list_all_gather

rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
print(rank, evenly_divisible_all_gather(torch.arange(rank + 1.0)).tolist())
print(rank, string_list_all_gather([f"of {rank}"] * (rank + 1)))
average = CumulativeAverage()
average.append(torch.tensor([1.0 + rank]))
print(rank, average.aggregate(), partition_dataset(range(5), num_partitions=2, shuffle=True)[rank])
dist.destroy_process_group()
