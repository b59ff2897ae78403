import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe


def work(rank, init):
    dist.init_process_group("gloo", init, world_size=2, rank=rank)
    torch.manual_seed(0)
    layer = torch.nn.Linear(4, 4)
    stage = PipelineStage(layer, rank, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, 2, loss_fn=torch.nn.functional.mse_loss)
    once = None
    for _ in range(2):  # the gradients of two equal batches are added up
        if rank == 0:
            schedule.step(torch.ones(4, 4))
        else:
            schedule.step(target=torch.ones(4, 4))
        once = layer.weight.grad.clone() if once is None else once
    if rank == 0:
        times = (layer.weight.grad.sum() / once.sum()).item()
        word = "OK" if abs(times - 2) < 1e-4 else "BUG"
        print(word, f"two equal batches have {times:.4g} times the gradient of one", flush=True)


if __name__ == "__main__":
    mp.spawn(work, (f"file://{tempfile.mktemp()}",), 2)
