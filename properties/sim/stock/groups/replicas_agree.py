"""Programs whose replicas agree, or that have none, or keep them apart on purpose."""

import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import (
    PostLocalSGDState,
    post_localSGD_hook,
)
from torch.distributed.algorithms.join import Join
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, fully_shard
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Replicate, distribute_module
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()


def inputs() -> torch.Tensor:
    return torch.full((2, 3), rank + 1.0)


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Linear(2, 1))


def train(model, optimizer=None, steps=3, sync=lambda step: contextlib.nullcontext()):
    optimizer = optimizer or torch.optim.Adam(model.parameters())
    for step in range(steps):
        with sync(step):
            model(inputs()).sum().backward()
        if isinstance(sync(step), contextlib.nullcontext):
            optimizer.step()
            optimizer.zero_grad()


def accumulates() -> None:
    model = DistributedDataParallel(net())
    train(model, sync=lambda step: contextlib.nullcontext() if step % 2 else model.no_sync())


def buffers_apart() -> None:
    train(DistributedDataParallel(net(), broadcast_buffers=False))


def state_in_parts() -> None:
    model = DistributedDataParallel(net())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.1)
    train(model, optimizer)
    for to in range(2):
        optimizer.consolidate_state_dict(to=to)
        if rank == to:
            state = optimizer.state_dict()
    optimizer.load_state_dict(state)
    train(model, optimizer)


def apart_on_purpose() -> None:
    model = DistributedDataParallel(net())
    model.register_comm_hook(
        PostLocalSGDState(None, dist.new_group([rank]), start_localSGD_iter=1), post_localSGD_hook
    )
    averager = PeriodicModelAverager(period=4, warmup_steps=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, PostLocalSGDOptimizer(optimizer, averager), steps=6)


def other_models() -> None:
    torch.manual_seed(rank)
    train(nn.Linear(3, rank + 1))


def one_looks() -> None:
    model = DistributedDataParallel(nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(inputs()).sum().backward()
        if rank == 0:
            model(inputs())
        optimizer.step()
        if rank == 1:
            model(inputs())


def uneven() -> None:
    model = DistributedDataParallel(nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Join([model]):
        train(model, optimizer, steps=2 + rank)


def two_optimizers() -> None:
    model = DistributedDataParallel(nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1)))
    first, second = (torch.optim.SGD(each.parameters(), lr=0.1) for each in model.module)
    for _ in range(2):
        model(inputs()).sum().backward()
        for optimizer in (first, second) if rank else (second, first):
            optimizer.step()


def ignored() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, ["1.bias"])
    train(DistributedDataParallel(model))


def sharded() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    train(fully_shard(model))


def resized() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    train(FullyShardedDataParallel(model, device_id=torch.device("cpu")))


def not_sharded() -> None:
    options = {"sharding_strategy": ShardingStrategy.NO_SHARD, "device_id": torch.device("cpu")}
    train(FullyShardedDataParallel(net(), use_orig_params=True, **options))


def hybrid() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("copies", "parts"))
    train(fully_shard(model, mesh=mesh))


def replicated() -> None:
    mesh = init_device_mesh("cpu", (2,))
    model = distribute_module(nn.Linear(3, 1), mesh)
    optimizer = torch.optim.Adam(model.parameters())
    model(DTensor.from_local(torch.ones(2, 3), mesh, [Replicate()])).sum().backward()
    optimizer.step()


def begins_anew() -> None:
    model = nn.Linear(3, 1)
    left = DistributedDataParallel(model)
    dist.destroy_process_group()
    dist.init_process_group("gloo")
    train(DistributedDataParallel(model))
    assert left.module is model


for program in (
    accumulates,
    buffers_apart,
    state_in_parts,
    apart_on_purpose,
    other_models,
    one_looks,
    uneven,
    two_optimizers,
    ignored,
    sharded,
    resized,
    not_sharded,
    hybrid,
    replicated,
    begins_anew,
):
    torch.manual_seed(0)
    program()
    print(rank, program.__name__, flush=True)
dist.destroy_process_group()
