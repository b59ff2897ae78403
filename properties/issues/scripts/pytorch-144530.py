# pytorch/pytorch#144530, 4 ranks
# DDP inside of a zero bubble schedule: the split backward passes go past its hooks
# Expected: gradients are averaged among the replicas of a stage
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, ScheduleInterleavedZeroBubble
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "pp"))
dp, pp = mesh.get_group("dp"), mesh.get_group("pp")
rank, replica = dist.get_rank(pp), dist.get_rank(dp)
torch.manual_seed(0)
mine = [DistributedDataParallel(torch.nn.Linear(4, 4), process_group=dp) for _ in range(2)]
stages = [
    PipelineStage(m, rank + 2 * i, 4, torch.device("cpu"), group=pp) for i, m in enumerate(mine)
]
schedule = ScheduleInterleavedZeroBubble(stages, 4, loss_fn=lambda out, _: out.sum())
x = torch.ones(4, 4) * (replica + 1)
schedule.step(*((x,) if rank == 0 else ()), target=x)
torch.optim.SGD([p for m in mine for p in m.parameters()], lr=0.1).step()
apart = 0.0
for module in mine:
    weights = [torch.zeros(4, 4) for _ in range(2)]
    dist.all_gather(weights, module.module.weight.detach(), group=dp)
    apart = max(apart, (weights[0] - weights[1]).abs().max().item())
if dist.get_rank() == 0:
    print(
        "BUG" if apart > 1e-6 else "OK", f"replicas differ by {apart:.2g} after a step", flush=True
    )
