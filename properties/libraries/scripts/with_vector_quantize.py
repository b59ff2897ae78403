"""vector-quantize-pytorch: a codebook by distributed k-means, synchronized."""

import os

import torch
import torch.distributed as dist
from vector_quantize_pytorch import VectorQuantize

rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
torch.manual_seed(3)
quantize = VectorQuantize(
    dim=4, codebook_size=8, kmeans_init=True, kmeans_iters=3, sync_codebook=True, decay=0.8
)
torch.manual_seed(rank)
for _ in range(3):
    found, indices, loss = quantize(torch.randn(1, 16, 4))
    print(rank, indices.tolist(), round(loss.item(), 5))
print(rank, quantize.codebook.sum().item())
dist.destroy_process_group()
