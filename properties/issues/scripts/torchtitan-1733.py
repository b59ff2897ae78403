# pytorch/torchtitan#1733, 2 ranks
# A pipeline divides the gradients of earlier steps by the number of microbatches once more
# Expected: two equal batches have twice the gradient of one
import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
layer = torch.nn.Linear(4, 4)
stage = PipelineStage(layer, rank, 2, torch.device("cpu"))
schedule = ScheduleGPipe(stage, 2, loss_fn=torch.nn.functional.mse_loss)
once = None
for _ in range(2):
    if rank == 0:
        schedule.step(torch.ones(4, 4))
    else:
        schedule.step(target=torch.ones(4, 4))
    once = layer.weight.grad.clone() if once is None else once
if rank == 0:
    times = (layer.weight.grad.sum() / once.sum()).item()
    print("OK" if abs(times - 2) < 1e-4 else "BUG", f"{times:.4g} times the gradient", flush=True)
