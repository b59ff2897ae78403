import torch
from torch import nn

parameter = nn.Parameter(torch.ones(2))
(2 * parameter).sum().backward()
print("OK" if parameter.grad.tolist() == [2, 2] else "BUG", parameter.grad.tolist())
