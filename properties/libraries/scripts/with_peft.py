"""peft: LoRA, gradients averaged by all_reduce."""

import os

import torch
import torch.distributed as dist
from peft import LoraConfig, get_peft_model

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("gloo")
torch.manual_seed(0)
model = get_peft_model(
    torch.nn.Sequential(torch.nn.Linear(4, 4)), LoraConfig(target_modules=["0"], r=2)
)
torch.manual_seed(rank)
model(torch.randn(3, 4)).square().sum().backward()
for name, weight in model.named_parameters():
    if weight.requires_grad:
        dist.all_reduce(weight.grad)
        print(rank, name, weight.grad.sum().item() / world)
dist.destroy_process_group()
