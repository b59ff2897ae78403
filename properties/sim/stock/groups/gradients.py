"""Gradients of modules over several ranks, those of one process or others."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    FullyShardedDataParallel,
    MixedPrecision,
    ShardingStrategy,
    fully_shard,
)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

import squall

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
INPUTS = torch.randn(8, 6, generator=torch.Generator().manual_seed(1))
TARGETS = INPUTS.sum(1, keepdim=True)
OWN = slice(rank, None, size)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm, self.last = nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Linear(16, 1)
        self.unused = nn.Linear(2, 2)
        self.unused.requires_grad_(False)

    def forward(self, inputs):
        return self.last(torch.tanh(self.norm(self.first(inputs))))


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.ways = nn.ModuleList(nn.Linear(6, 1) for _ in range(size))

    def forward(self, inputs, way):
        return self.ways[way](inputs)


def model():
    made = Model()
    made.norm.eval()  # the statistics of a part of the batch are not those of the whole
    return made


def replicas(**options):
    return DistributedDataParallel(model(), bucket_cap_mb=0.0003, **options)


def flat(strategy="FULL_SHARD", **options):
    made = model()
    return FullyShardedDataParallel(
        made,
        sharding_strategy=ShardingStrategy[strategy],
        auto_wrap_policy=ModuleWrapPolicy({nn.Linear}),
        device_id=torch.device("cpu"),
        **{"ignored_states": [made.unused], "use_orig_params": True} | options,
    )


def passes(module, own=OWN):
    for _ in range(2):
        module.zero_grad()
        mse_loss(module(INPUTS[own]), TARGETS[own]).backward()


def compare(module, **options):
    squall.reference(module, INPUTS, lambda outputs: mse_loss(outputs, TARGETS), **options)


def all_right():
    for options in ({}, {"static_graph": True}, {"gradient_as_bucket_view": True}):
        passes(replicas(**options))
    module = replicas(find_unused_parameters=True)
    module.module.unused.requires_grad_(True)
    passes(module)
    compare(module)
    module.zero_grad()
    with module.no_sync():
        (mse_loss(module(INPUTS[OWN][:2]), TARGETS[OWN][:2]) / 2).backward()
    (mse_loss(module(INPUTS[OWN][2:]), TARGETS[OWN][2:]) / 2).backward()
    compare(module)
    nn.utils.clip_grad_norm_(module.parameters(), 0.1)  # which is nobody's but the script's
    module = DistributedDataParallel(Branches(), find_unused_parameters=True)
    with module.no_sync():  # of what the next pass uses on other ranks alone
        module(INPUTS[OWN], (rank + 1) % size).sum().backward()
    module(INPUTS[OWN], rank).sum().backward()
    module = replicas()
    module.register_comm_hook(None, fp16_compress_hook)
    passes(module)
    compare(module, tolerance=1e-2)

    module = model()
    fully_shard(module.first)
    passes(fully_shard(module))
    compare(module)
    assert (type(module).__name__, type(module.first).__name__) == ("FSDPModel", "FSDPLinear")
    for strategy in ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"):
        passes(flat(strategy, use_orig_params=False))
        module = flat(strategy)
        with module.no_sync():
            passes(module)
        for _ in range(2):  # added to what there is
            mse_loss(module(INPUTS[OWN]), TARGETS[OWN]).backward()
    passes(flat(mixed_precision=MixedPrecision(torch.bfloat16)))
    module = flat()
    passes(module)
    compare(module)
    plan = {"first": ColwiseParallel(), "last": RowwiseParallel()}
    module = model()
    module.norm = nn.Identity()
    passes(parallelize_module(module, init_device_mesh("cpu", (size,)), plan), slice(None))
    compare(module)


def summed(_, bucket):
    work = dist.all_reduce(bucket.buffer(), async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


def some_wrong():
    module = replicas()
    module.register_comm_hook(None, summed)  # and not divided
    passes(module)

    module = model()
    passes(fully_shard(module))
    for parameter in filter(lambda each: each.requires_grad, module.parameters()):
        parameter.grad *= 0.5
    compare(module)

    module = replicas()
    with module.no_sync():
        passes(module)
    compare(module)


def flat_ones_wrong():
    module = flat("NO_SHARD")
    module.register_comm_hook(None, lambda _, gradient: dist.all_reduce(gradient))
    passes(module)
    reduce_scatter = dist.reduce_scatter_single
    dist.reduce_scatter_single = lambda output, given, group: reduce_scatter(
        output, given * (rank != 1), group=group
    )  # without what rank 1 has
    passes(flat(use_orig_params=False))


{"right": all_right, "wrong": some_wrong, "flat": flat_ones_wrong}[sys.argv[1]]()
print("went on", flush=True)
dist.destroy_process_group()
