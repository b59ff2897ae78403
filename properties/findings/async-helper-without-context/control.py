import torch

x = torch.ones(1, requires_grad=True)
(2 * x).sum().backward()
print("OK" if x.grad.item() == 2 else "BUG", "x of 2 * x has the gradient", x.grad.item())
