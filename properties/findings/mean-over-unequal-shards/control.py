import torch

x = torch.tensor([3.0, 3, 6], requires_grad=True)
loss = torch.nn.functional.mse_loss(x, torch.zeros_like(x))
loss.backward()
found = loss.item(), x.grad.tolist()
word = "OK" if found == (18, [2, 2, 4]) else "BUG"
print(word, f"the mean of 9, 9, 36 is {found[0]}, its gradient {found[1]}")
