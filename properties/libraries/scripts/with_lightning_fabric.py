"""pytorch-lightning: Fabric, launch, all_gather, all_reduce, broadcast."""

import os

import torch
from lightning_fabric import Fabric

fabric = Fabric(accelerator="cpu", devices=int(os.environ["WORLD_SIZE"]), strategy="ddp")
fabric.launch()
rank = fabric.global_rank
print(rank, fabric.world_size, fabric.all_gather(torch.tensor([rank])).tolist())
print(
    rank,
    fabric.all_reduce(torch.tensor(1.0 + rank), reduce_op="mean"),
    fabric.broadcast({"of": rank}),
)
fabric.barrier()
fabric.seed_everything(3)
print(rank, torch.rand(1).item())
