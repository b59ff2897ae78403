"""Programs whose replicas come apart without an error, one after the other; each says of itself what it is."""

import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, fully_shard
from torch.distributed.tensor import DTensor, Replicate
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()


def inputs() -> torch.Tensor:
    return torch.full((2, 3), rank + 1.0)


def train(model, steps=3, sync=lambda step: contextlib.nullcontext(), may_step=lambda step: True):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        with sync(step):
            model(inputs()).sum().backward()
        if may_step(step):
            optimizer.step()


class Partly(nn.Module):
    """Of which a part is not used, and that is not told."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(3, 1), nn.Linear(3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.used(x)


class Buffers(nn.Module):
    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 1)
        for name in names:
            self.register_buffer(name, torch.full((2,), float(len(name))))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


def unused() -> None:
    train(DistributedDataParallel(Partly()), steps=1)


def not_synchronized() -> None:
    model = DistributedDataParallel(nn.Linear(3, 1))
    train(model, sync=lambda step: model.no_sync() if step == 1 else contextlib.nullcontext())


def one_steps() -> None:
    model = DistributedDataParallel(nn.Linear(3, 1))
    train(model, may_step=lambda step: rank == 0)


def one_misses_a_step() -> None:
    model = DistributedDataParallel(nn.Linear(3, 1))
    train(model, steps=4, may_step=lambda step: rank == 0 or step != 1)


def begin_apart() -> None:
    torch.manual_seed(rank)
    train(DistributedDataParallel(nn.Linear(3, 1), init_sync=False))


def buffers_in_another_order() -> None:
    train(DistributedDataParallel(Buffers(["mean", "variance"][:: 1 if rank else -1])))


def one_loads() -> None:
    model = DistributedDataParallel(nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1)))
    train(model)
    if rank == 0:
        nn.init.zeros_(model.module[1].bias)
    train(model)


def no_replicas() -> None:
    mesh = init_device_mesh("cpu", (2,))
    model = nn.Sequential(nn.Linear(3, 1))
    for name, each in list(model[0].named_parameters()):
        each = nn.Parameter(DTensor.from_local(each.detach() + rank, mesh, [Replicate()]))
        setattr(model[0], name, each)
    optimizer = torch.optim.Adam(model.parameters())
    for each in model.parameters():
        each.grad = torch.ones_like(each)
    optimizer.step()


def hybrid() -> None:
    torch.manual_seed(rank)
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    fully_shard(model, mesh=init_device_mesh("cpu", (2, 1), mesh_dim_names=("copies", "parts")))
    train(model)


def not_averaged() -> None:
    """PyTorch averages nothing where shards have one rank (pytorch#154888)."""
    train(
        FullyShardedDataParallel(
            nn.Linear(3, 2),
            sharding_strategy=ShardingStrategy.HYBRID_SHARD,
            device_mesh=init_device_mesh("cpu", (2, 1)),
            device_id=torch.device("cpu"),
        )
    )


for program in (
    unused,
    not_synchronized,
    one_steps,
    one_misses_a_step,
    begin_apart,
    buffers_in_another_order,
    one_loads,
    no_replicas,
    hybrid,
    not_averaged,
):
    torch.manual_seed(0)
    program()
    print(rank, program.__name__, flush=True)
dist.destroy_process_group()
