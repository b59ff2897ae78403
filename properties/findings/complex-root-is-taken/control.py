import torch

x = torch.ones(1, requires_grad=True)
try:
    (x * (1 + 2j)).sum().backward()
    print("BUG taken", x.grad)
except RuntimeError as error:
    print("OK refused:", error)
