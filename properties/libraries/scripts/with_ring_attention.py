"""ring-attention-pytorch: RingAttention and its backward pass."""

import os

import torch
import torch.distributed as dist
from ring_attention_pytorch import RingAttention

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("gloo")
torch.manual_seed(0)
attend = RingAttention(
    dim=8,
    dim_head=4,
    heads=2,
    causal=True,
    auto_shard_seq=True,
    ring_attn=True,
    ring_seq_size=4,
    bucket_size=2,
)
x = torch.randn(1, 8, 8, requires_grad=True)
out = attend(x)
out.square().sum().backward()
print(rank, out.shape, round(out.sum().item(), 5), round(x.grad.sum().item(), 5))
dist.destroy_process_group()
