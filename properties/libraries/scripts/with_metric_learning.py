"""pytorch-metric-learning: DistributedLossWrapper and its backward pass."""

import os

import torch
import torch.distributed as dist
from pytorch_metric_learning import losses
from pytorch_metric_learning.utils import distributed

rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
torch.manual_seed(rank)
x = torch.randn(4, 3, requires_grad=True)
loss = distributed.DistributedLossWrapper(losses.ContrastiveLoss())(x, torch.tensor([0, 1, 0, 1]))
loss.backward()
print(rank, loss.item(), x.grad.sum().item())
dist.destroy_process_group()
