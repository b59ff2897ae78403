# pytorch/pytorch#132644, 2 ranks
# Pipelining on gloo hangs: of a batch of messages the last alone is waited for
# Expected: the output of one process
import datetime

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=10))
rank = dist.get_rank()
torch.manual_seed(0)
layers = [torch.nn.Linear(4, 4) for _ in range(2)]
schedule = ScheduleGPipe(PipelineStage(layers[rank], rank, 2, torch.device("cpu")), 4)
x = torch.arange(32.0).reshape(8, 4)
got = schedule.step(*((x,) if rank == 0 else ()))
right = [True if rank == 0 else torch.allclose(got, layers[1](layers[0](x))), None]
dist.broadcast_object_list(right, 1)
if rank == 0:
    print("OK" if right[0] else "BUG", "the output of one process", flush=True)
