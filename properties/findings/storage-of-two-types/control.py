import torch

a = torch.ones(2, requires_grad=True)
z = torch.ones(2, dtype=torch.cfloat, requires_grad=True)
factor = torch.tensor([1 + 2j, 3 + 4j])
(torch.add(a, z) * factor).real.sum().backward()
gradient = z.grad.tolist()
print("OK" if gradient == [1 - 2j, 3 - 4j] else "BUG", "z has the gradient", gradient)
