"""Training that survives the end of a process: torchrun's agent starts all ranks again, and they go on from the
last checkpoint.

    python elastic.py                                    the agent and two ranks, real processes
    squall run --engine torch elastic.py                 the same, simulated
    squall run --engine torch elastic.py --faults crash.json

where crash.json is {"version": 1, "workers": [{"kind": "crash", "worker": 1, "at_s": 2.5}]}: the result is the same.
"""

import os
import sys
import tempfile
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.run import main as torchrun
from torch.nn.parallel import DistributedDataParallel

STEPS = 6


@record
def train(checkpoint: str) -> None:
    dist.init_process_group("gloo", timeout=timedelta(seconds=30))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    step = 0
    if os.path.exists(checkpoint):
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]
    while step < STEPS:
        inputs = torch.full((2, 4), float(step + rank))
        loss = model(inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        time.sleep(1)  # what a larger model takes
        if rank == 0:
            saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save(saved, checkpoint + ".new")
            os.replace(checkpoint + ".new", checkpoint)
        dist.barrier()
    started = os.environ["TORCHELASTIC_RESTART_COUNT"]
    weights = [round(each, 4) for each in model.module.weight.flatten().tolist()]
    print(f"rank {rank}, restarts {started}: {weights}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            words = "--standalone --nproc-per-node 2 --max-restarts 3 --monitor-interval 0.5"
            torchrun([*words.split(), __file__, os.path.join(folder, "checkpoint.pt")])
