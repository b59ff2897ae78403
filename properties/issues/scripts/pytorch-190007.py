# pytorch/pytorch#190007, 2 ranks
# The functional all_reduce with "avg" has no backward pass
# Expected: the mean of the gradients, as from nn.functional.all_reduce
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

dist.init_process_group("gloo")
rank = dist.get_rank()
x = torch.ones(1, requires_grad=True)
try:
    (functional.all_reduce(x, "avg", dist.group.WORLD) * (rank + 1)).sum().backward()
    said = f"{'OK' if x.grad.item() == 1.5 else 'BUG'} the gradient is {x.grad.item()}"
except RuntimeError as error:
    said = f"BUG {str(error).splitlines()[0]}"
if rank == 0:
    print(said, flush=True)
