import torch
from torch import optim

first, second = (torch.ones(1, requires_grad=True) for _ in range(2))
optimizer = optim.Adagrad([first, second], lr=0.5)
(2 * second).sum().backward()
optimizer.step()
now = [first.item(), second.item()]
print("OK" if now == [1.0, 0.5] else "BUG", now)
