"""Each schedule of torch.distributed.pipelining computes the gradients that one process computes."""

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, schedules

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
loss_fn = torch.nn.functional.mse_loss


def equal(name):
    schedule = getattr(schedules, name)
    one_each = issubclass(schedule, schedules.PipelineScheduleSingle)
    count = size if one_each else 2 * size
    torch.manual_seed(0)
    layers = [torch.nn.Linear(4, 4, dtype=torch.float64) for _ in range(count)]
    given, wanted = torch.randn(8, 4, dtype=torch.float64), torch.randn(8, 4, dtype=torch.float64)
    back_and_forth = name in ("ScheduleZBVZeroBubble", "ScheduleDualPipeV")
    mine = [rank] if one_each else [rank, count - 1 - rank if back_and_forth else rank + size]
    stages = [PipelineStage(layers[at], at, count, torch.device("cpu")) for at in mine]
    # DualPipeV has two microbatches for each stage at least.
    run = schedule(stages[0] if one_each else stages, 8, loss_fn=loss_fn)
    run.step(
        *((given,) if 0 in mine else ()),
        **({"target": wanted} if count - 1 in mine else {}),
    )
    found = [layers[at].weight.grad.clone() for at in mine]
    for layer in layers:
        layer.zero_grad()
    # The loss of a microbatch counts as much as that of any other.
    loss_fn(torch.nn.Sequential(*layers)(given), wanted).backward()
    return all(
        torch.allclose(one, layers[at].weight.grad) for one, at in zip(found, mine, strict=True)
    )


for name in (
    "ScheduleGPipe", "Schedule1F1B", "ScheduleInterleaved1F1B", "ScheduleLoopedBFS",
    "ScheduleInterleavedZeroBubble", "ScheduleZBVZeroBubble", "ScheduleDualPipeV",
):  # fmt: skip
    print(f"R{rank} {name} {equal(name)}", flush=True)
dist.destroy_process_group()
