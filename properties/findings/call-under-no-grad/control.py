import torch

x = torch.ones(1, requires_grad=True)
with torch.no_grad():
    y = torch.mul(x, 2)
print("BUG" if y.requires_grad else "OK", "computed under no_grad; requires_grad", y.requires_grad)
