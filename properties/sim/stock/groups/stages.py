"""Pipelines with the gradients of one process, or others."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import Schedule1F1B, ScheduleInterleaved1F1B
from torch.nn.functional import mse_loss

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
INPUTS, TARGETS = torch.randn(8, 6, generator=torch.Generator().manual_seed(1)), torch.ones(8, 6)


class Stage(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.linear, self.dropout = nn.Linear(6, 6), nn.Dropout(dropout)
        self.unused = nn.Linear(2, 2)
        self.calls = 0

    def forward(self, inputs, **_):
        self.calls += 1
        return self.dropout(torch.tanh(self.linear(inputs)))


def stages(per_rank, dropout=0.0):
    torch.manual_seed(0)
    count = per_rank * size
    every = [Stage(dropout) for _ in range(count)]
    own = range(rank, count, size)
    return [PipelineStage(every[at], at, count, torch.device("cpu")) for at in own]


def steps(schedule, own, *, accumulate=False):
    for _ in range(2):
        for stage in own:
            if not accumulate:
                stage.submod.zero_grad()
        inputs = (INPUTS,) if rank == 0 else ()
        schedule.step(*inputs, **({"target": TARGETS} if rank == size - 1 else {}))


def doubled(own):
    for stage in own:
        for parameter in stage.submod.parameters():
            parameter.register_hook(lambda gradient: 2 * gradient)
    return own


def one(own):
    return Schedule1F1B(own[0], 4, loss_fn=mse_loss)


match sys.argv[1]:
    case "right":
        own = stages(1)
        steps(one(own), own)
        assert own[0].submod.calls == 9, own[0].submod.calls  # once to learn what shapes it returns
        own = stages(2)
        steps(ScheduleInterleaved1F1B(own, 4, loss_fn=mse_loss), own)
    case "doubled":
        own = doubled(stages(1))
        steps(one(own), own)
    case "accumulated":
        own = stages(1)
        steps(one(own), own, accumulate=True)
    case "unknown":
        own = stages(1, dropout=0.5)
        steps(one(own), own)
print("went on")
dist.destroy_process_group()
