"""st-moe-pytorch: AllGather with its backward pass, split_by_rank."""

import os

import torch
import torch.distributed as dist
from st_moe_pytorch.distributed import AllGather, split_by_rank

rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
gather = AllGather(dim=0)
x = torch.full((2, 3), rank + 1.0, requires_grad=True)
out, sizes = gather(x)
out.square().sum().backward()
print(rank, out.tolist(), sizes, x.grad.tolist(), split_by_rank(out)[1].tolist())
dist.destroy_process_group()
