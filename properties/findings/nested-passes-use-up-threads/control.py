import torch


def step(depth):
    with torch.enable_grad():
        y = 2 * torch.ones(1, requires_grad=True)
        if depth > 1:
            y.register_hook(lambda _: step(depth - 1))
        y.sum().backward()


torch.set_num_interop_threads(2)
step(20)
print("OK 20 passes, nested, ended")
