import datetime
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel


def work(rank, init):
    limit = datetime.timedelta(seconds=10)
    dist.init_process_group("gloo", init, timeout=limit, world_size=2, rank=rank)
    torch.manual_seed(0)
    layers = [torch.nn.Linear(16, 16), torch.nn.Linear(16, 12), torch.nn.Linear(12, 16)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.0002)
    state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    torch.manual_seed(rank)
    for _ in range(200):
        model(torch.randn(4, 16)).square().mean().backward()


if __name__ == "__main__":
    try:
        mp.spawn(work, (f"file://{tempfile.mktemp()}",), 2)
        print("OK 200 steps")
    except Exception:  # an abort, or a time limit
        print("BUG a process did not come to the end of 200 steps")
