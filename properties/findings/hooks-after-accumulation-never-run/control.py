import torch

x = torch.ones(2, requires_grad=True)
y = torch.ones(2, requires_grad=True)
ran = []
x.register_hook(lambda _: ran.append("hook"))
x.register_post_accumulate_grad_hook(lambda _: ran.append("post-accumulate"))
torch.autograd.graph.register_multi_grad_hook((x, y), lambda _: ran.append("multi-grad"))
(2 * x * y).sum().backward()
print("OK" if len(ran) == 3 else "BUG", ran)
