import torch

x = torch.ones(1, requires_grad=True)
y, other = 2 * x, (3 * x).sum()
y.register_hook(lambda _: other.backward())
y.sum().backward()
print("OK" if x.grad.item() == 5 else "BUG", "both passes ran, the gradient is", x.grad.item())
