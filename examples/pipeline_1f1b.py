"""A pipeline of stages with the schedule 1F1B of torch.distributed.pipelining.

Every rank has one stage of the model. Micro-batches go from stage to stage, their gradients go
back, and a stage that has begun alternates one forward and one backward. The gradients of a stage
are those that the same layer has in the whole model in one process, which every rank computes
beside it.

    torchrun --nproc-per-node 4 examples/pipeline_1f1b.py
    squall run examples/pipeline_1f1b.py --workers 4 --engine torch
"""

import copy

import torch
import torch.distributed as dist
from torch import nn, optim
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

BATCH, MICRO_BATCHES, WIDTH, STEPS = 24, 8, 6, 5


def make_model(stages):
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(stages)]
    return nn.Sequential(*layers).double()


def train(rank, world_size):
    single = make_model(world_size)
    mine = copy.deepcopy(single[rank])
    stage = PipelineStage(mine, rank, world_size, torch.device("cpu"))
    schedule = Schedule1F1B(stage, MICRO_BATCHES, loss_fn=nn.functional.mse_loss)
    optimizers = [optim.SGD(model.parameters(), lr=0.5) for model in (single, mine)]
    generator = torch.Generator().manual_seed(7)
    inputs = torch.randn(BATCH, WIDTH, generator=generator, dtype=torch.float64)
    targets = inputs.sin()
    for step in range(1, STEPS + 1):
        for optimizer in optimizers:
            optimizer.zero_grad()
        nn.functional.mse_loss(single(inputs), targets).backward()
        losses = []
        first, last = rank == 0, rank == world_size - 1
        schedule.step(
            *([inputs] if first else []),
            target=targets if last else None,
            losses=losses if last else None,
        )
        for one, other in zip(single[rank].parameters(), mine.parameters(), strict=True):
            torch.testing.assert_close(one.grad, other.grad)
        for optimizer in optimizers:
            optimizer.step()
        if last:
            print(f"step {step}  loss {torch.stack(losses).mean().item():.6f}", flush=True)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(dist.get_rank(), dist.get_world_size())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
