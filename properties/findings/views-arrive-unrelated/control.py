import torch

x = torch.ones(2, requires_grad=True)
whole = x * 1
part = whole[:1]
whole.mul_(3)
part.sum().backward()
print("OK" if x.grad.tolist() == [3, 0] else "BUG", x.grad.tolist())
