import torch


def fail(gradient):
    raise ValueError("the user's text")


y = 2 * torch.ones(1, requires_grad=True)
y.register_hook(fail)
try:
    y.sum().backward()
except ValueError as error:
    print("OK" if str(error) == "the user's text" else "BUG", "the caller is told:", error)
