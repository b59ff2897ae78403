# pytorch/pytorch#130515, 3 ranks
# nn.functional.broadcast in a subgroup gives the gradient to a rank that is not the source
# Expected: rank 1, the source, has the sum of the gradients 1 and 2, and rank 2 none
import warnings

import torch
import torch.distributed as dist
from torch.distributed.nn.functional import broadcast

warnings.filterwarnings("ignore", category=FutureWarning)
dist.init_process_group("gloo")
rank = dist.get_rank()
group = dist.new_group([1, 2])
x = torch.zeros(1, requires_grad=True)
if rank:
    (broadcast(x, 1, group=group) * rank).sum().backward()
grads = [torch.zeros(1) for _ in range(3)]
dist.all_gather(grads, x.grad if rank else torch.zeros(1))
if rank == 0:
    found = [grad.item() for grad in grads[1:]]
    print("OK" if found == [3, 0] else "BUG", f"gradients of ranks 1 and 2: {found}", flush=True)
