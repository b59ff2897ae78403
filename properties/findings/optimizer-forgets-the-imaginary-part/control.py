import torch
from torch import optim

leaf = torch.ones(1, dtype=torch.complex64, requires_grad=True)
optimizer = optim.Rprop([leaf], lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    (leaf.real + leaf.imag).sum().backward()
    optimizer.step()
imag = leaf.imag.item()
print("BUG" if abs(imag) < 0.1 else "OK", f"the imaginary part moved by {imag:.2g}")
