import torch
import torch.nn.functional as F

table = torch.ones(2, 2, requires_grad=True)
F.embedding(torch.tensor([0]), table, sparse=True).sum().backward()
(10 * table).sum().backward()
gradient = table.grad.to_dense().tolist()
print("OK" if gradient == [[11, 11], [10, 10]] else "BUG", "after both passes", gradient)
