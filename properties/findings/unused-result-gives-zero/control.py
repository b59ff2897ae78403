import torch
from torch import optim

used, unused = (torch.ones(1, requires_grad=True) for _ in range(2))
optimizer = optim.SGD([used, unused], lr=0.5, weight_decay=1.0)
results = used * 1, unused * 1
results[0].sum().backward()
optimizer.step()
print("OK" if unused.item() == 1 else "BUG", unused.item())
