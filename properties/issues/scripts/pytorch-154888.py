# pytorch/pytorch#154888, 2 ranks
# FSDP1, HYBRID_SHARD with one rank a shard group: gradients are not averaged among replicas
# Expected: the mean of the gradients 1 and 2
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy

dist.init_process_group("gloo")
rank = dist.get_rank()
mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("replicate", "shard"))
model = FullyShardedDataParallel(
    torch.nn.Linear(1, 1, bias=False),
    device_mesh=mesh,
    sharding_strategy=ShardingStrategy.HYBRID_SHARD,
    device_id=torch.device("cpu"),
)
model(torch.full((1, 1), rank + 1.0)).sum().backward()
(weight,) = model.parameters()
found = weight.grad.item()
torch.optim.SGD([weight], lr=0.1).step()
if rank == 0:
    print("OK" if found == 1.5 else "BUG", f"the gradient is {found}, the mean is 1.5", flush=True)
