import torch
from torch import nn

module = nn.utils.weight_norm(nn.Linear(1, 1, bias=False))
nn.init.constant_(module.weight_g, 10)
now = abs(module(torch.ones(1, 1)).item())
print("BUG" if now < 9.9 else "OK", f"weight_g is 10, the module multiplies by {now:.2g}")
