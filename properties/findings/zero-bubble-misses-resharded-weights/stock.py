import copy
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleInterleavedZeroBubble


def work(rank, init):
    dist.init_process_group("gloo", init, world_size=2, rank=rank)
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(4)]
    inputs, targets = torch.randn(4, 4), torch.randn(4, 4)
    alone = copy.deepcopy(layers)
    nn.functional.mse_loss(nn.Sequential(*alone)(inputs), targets).backward()
    mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "pp"))
    for layer in layers:
        fully_shard(layer[0], mesh=mesh["dp"])
        fully_shard(layer, mesh=mesh["dp"])
    device, group = torch.device("cpu"), mesh["pp"].get_group()
    stages = [PipelineStage(layers[at], at, 4, device, group=group) for at in (rank, rank + 2)]
    schedule = ScheduleInterleavedZeroBubble(stages, 2, loss_fn=nn.functional.mse_loss)
    schedule.step(*([] if rank else [inputs]), **({"target": targets} if rank else {}))
    if rank == 1:
        found, expected = (each[3][0].weight.grad for each in (layers, alone))
        text = "has no gradient" if found is None else "has another gradient than in one process"
        good = found is not None and torch.allclose(found.full_tensor(), expected, atol=1e-6)
        print(*(("OK",) if good else ("BUG the weight of the last stage", text)), flush=True)


if __name__ == "__main__":
    mp.spawn(work, (f"file://{tempfile.mktemp()}",), 2)
