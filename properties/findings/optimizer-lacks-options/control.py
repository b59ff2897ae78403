import torch

for option in ({"foreach": True}, {"fused": True}, {"differentiable": False}):
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1, **option)
    weight.sum().backward()
    optimizer.step()
    assert torch.allclose(weight, torch.full((2,), 0.9))
print("OK all three step")
