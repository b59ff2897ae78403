"""A pipeline whose stages take the same time, with the schedule of argument 1 and as many micro-batches as argument 2
says; with a third argument ranks meet at a barrier before and after each step."""

import sys

import torch
import torch.distributed as dist
from torch import nn, optim
from torch.distributed.pipelining import PipelineStage, schedules

STEPS, WIDTH = 3, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.eye(WIDTH))

    def forward(self, x):
        return x @ self.weight


def main():
    torch.set_num_threads(1)
    name, batches, meets = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if name in ("ScheduleGPipe", "Schedule1F1B"):
        stages, own = ranks, [rank]
    elif name in ("ScheduleZBVZeroBubble", "ScheduleDualPipeV"):
        stages, own = 2 * ranks, [rank, 2 * ranks - 1 - rank]
    else:
        stages, own = 2 * ranks, [rank, rank + ranks]
    made = [PipelineStage(Block(), at, stages, torch.device("cpu")) for at in own]
    schedule = getattr(schedules, name)(
        made if len(made) > 1 else made[0], batches, loss_fn=nn.functional.mse_loss
    )
    optimizer = optim.SGD([each for stage in made for each in stage.submod.parameters()], lr=0.1)
    x, y = torch.ones(batches, WIDTH), torch.zeros(batches, WIDTH)
    for _ in range(STEPS):
        if meets:
            dist.barrier()
        optimizer.zero_grad()
        schedule.step(*([x] if 0 in own else []), target=y if stages - 1 in own else None)
        if meets:
            dist.barrier()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
