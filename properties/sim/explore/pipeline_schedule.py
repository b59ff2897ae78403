"""One step of a schedule of a pipeline: sys.argv has its name and the number of microbatches."""

import sys

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, schedules

name, parts = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
# Most have two stages a rank, one after the other or there and back.
is_single = name in ("ScheduleGPipe", "Schedule1F1B")
goes_back = name in ("ScheduleZBVZeroBubble", "ScheduleDualPipeV")
count = size if is_single else 2 * size
mine = [rank] if is_single else [rank, count - 1 - rank if goes_back else rank + size]
torch.manual_seed(0)
model = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(count)])
stages = [PipelineStage(model[each], each, count, torch.device("cpu")) for each in mine]
schedule = getattr(schedules, name)(
    stages[0] if is_single else stages, parts, loss_fn=torch.nn.functional.mse_loss
)
inputs, targets = torch.randn(2 * parts, 4), torch.randn(2 * parts, 4)
schedule.step(
    *((inputs,) if 0 in mine else ()), **({"target": targets} if count - 1 in mine else {})
)
dist.destroy_process_group()
