# pytorch/pytorch#185167, 2 ranks
# nll_loss of a DTensor with weights of classes takes the mean of the means of ranks
# Expected: the loss of one process
import torch
import torch.distributed as dist
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh
from torch.nn.functional import nll_loss

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2,))
rows, targets, weight = (
    torch.arange(8.0).reshape(4, 2),
    torch.tensor([0, 0, 1, 1]),
    torch.tensor([1.0, 3]),
)
right = nll_loss(rows, targets, weight).item()
rows = distribute_tensor(rows, mesh, [Shard(0)])
targets, weight = (distribute_tensor(each, mesh, [Replicate()]) for each in (targets, weight))
found = nll_loss(rows, targets, weight).full_tensor().item()
if dist.get_rank() == 0:
    print(
        "OK" if found == right else "BUG",
        f"the loss is {found}, that of one process {right}",
        flush=True,
    )
