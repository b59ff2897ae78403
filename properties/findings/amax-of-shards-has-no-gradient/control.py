import torch

x = torch.tensor([1.0, 2, 3, 4], requires_grad=True)
x.amax().backward()
found = x.grad.tolist()
word = "OK" if found == [0, 0, 0, 1] else "BUG"
print(word, f"the gradient of the largest of 1, 2, 3, 4 is {found}")
