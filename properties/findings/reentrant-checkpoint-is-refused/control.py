import torch
from torch.utils.checkpoint import checkpoint

x = torch.ones(1, requires_grad=True)
checkpoint(torch.exp, 2 * x, use_reentrant=True).sum().backward()
print("OK the gradient is", round(x.grad.item(), 3))
