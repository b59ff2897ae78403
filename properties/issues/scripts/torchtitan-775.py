# pytorch/torchtitan#775, 2 ranks
# 1F1B with fewer microbatches than stages hangs
# Expected: it trains, or says what is wrong
import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

dist.init_process_group("gloo")
rank = dist.get_rank()
stage = PipelineStage(torch.nn.Linear(4, 4), rank, 2, torch.device("cpu"))
try:
    schedule = Schedule1F1B(stage, 1, loss_fn=torch.nn.functional.mse_loss)
    schedule.step(*((torch.ones(2, 4),) if rank == 0 else ()), target=torch.ones(2, 4))
    said = "OK it trains"
except ValueError as error:
    said = f"OK refused: {error}"
if rank == 0:
    print(said, flush=True)
