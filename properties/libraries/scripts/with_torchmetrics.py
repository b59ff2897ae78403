"""torchmetrics: metrics that gather tensors of unequal sizes."""

import os

import torch
import torch.distributed as dist
from torchmetrics import CatMetric, MeanMetric
from torchmetrics.classification import BinaryAUROC, MulticlassAccuracy

rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
torch.manual_seed(rank)
mean, auroc, accuracy, cat = MeanMetric(), BinaryAUROC(), MulticlassAccuracy(3), CatMetric()
mean.update(rank + 1.0)
auroc.update(torch.rand(4 + rank), torch.tensor([0, 1, 0, 1, 1][: 4 + rank]))
accuracy.update(torch.rand(5, 3), torch.tensor([0, 1, 2, 1, 0]))
cat.update(torch.arange(rank + 1.0))
print(rank, mean.compute(), auroc.compute(), accuracy.compute(), cat.compute())
dist.destroy_process_group()
