import torch

x = torch.ones(1, requires_grad=True)
loss = (x * x).sum()
loss.backward(retain_graph=True)
loss.backward(retain_graph=True)
print("OK", x.grad.item(), "after two passes")
