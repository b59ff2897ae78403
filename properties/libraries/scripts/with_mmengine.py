"""mmengine: all_reduce, all_gather_object, collect_results, gather."""

import os

import torch
from mmengine import dist

rank = int(os.environ["RANK"])
torch.distributed.init_process_group("gloo")
x = torch.tensor([rank + 1.0])
dist.all_reduce(x, op="mean")
print(rank, dist.get_dist_info(), x.item(), dist.all_gather_object({"rank": rank}))
found = dist.collect_results([rank, rank + 2], 3, device="cpu")
print(rank, found)
gathered = dist.gather(torch.tensor([rank]), dst=0)
print(rank, [each.item() for each in gathered])
dist.barrier()
