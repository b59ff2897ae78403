import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.pipelining import PipelineStage, ScheduleInterleavedZeroBubble
from torch.nn.parallel import DistributedDataParallel


def work(rank, init):
    dist.init_process_group("gloo", init, world_size=4, rank=rank)
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "pp"))
    dp, pp = mesh.get_group("dp"), mesh.get_group("pp")
    torch.manual_seed(0)
    mine = [DistributedDataParallel(torch.nn.Linear(4, 4), process_group=dp) for _ in range(2)]
    places, device = [pp.rank(), pp.rank() + 2], torch.device("cpu")
    stages = [PipelineStage(m, i, 4, device, group=pp) for m, i in zip(mine, places, strict=True)]
    schedule = ScheduleInterleavedZeroBubble(stages, 4, loss_fn=lambda output, _: output.sum())
    x = torch.ones(4, 4) * (dp.rank() + 1)
    schedule.step(*((x,) if pp.rank() == 0 else ()), target=x)
    torch.optim.SGD([p for m in mine for p in m.parameters()], lr=0.1).step()
    apart = torch.zeros(1)
    for module in mine:
        weights = [torch.zeros(4, 4) for _ in range(2)]
        dist.all_gather(weights, module.module.weight.detach(), group=dp)
        apart = max(apart, (weights[0] - weights[1]).abs().max().reshape(1))
    dist.all_reduce(apart, dist.ReduceOp.MAX)
    if rank == 0:
        word = "OK" if apart < 1e-6 else "BUG"
        print(word, f"replicas of a stage differ by {apart.item():.2g} after a step", flush=True)


if __name__ == "__main__":
    mp.spawn(work, (f"file://{tempfile.mktemp()}",), 4)
