import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.algorithms.ddp_comm_hooks import DDPCommHookType, register_ddp_comm_hook
from torch.nn.parallel import DistributedDataParallel


def work(rank, init):
    dist.init_process_group("gloo", init, world_size=2, rank=rank)
    failed = []
    for kind in (DDPCommHookType.QUANTIZE_PER_TENSOR, DDPCommHookType.QUANTIZE_PER_CHANNEL):
        model = DistributedDataParallel(torch.nn.Linear(4, 4))
        register_ddp_comm_hook(kind, model, dist.group.WORLD)
        try:
            model(torch.ones(2, 4)).sum().backward()
        except RuntimeError as error:
            failed.append(kind.name + ": " + str(error).rpartition("IndexError")[1])
    if rank == 0:
        print(f"BUG {', '.join(failed)}" if failed else "OK a step with each hook", flush=True)


if __name__ == "__main__":
    mp.spawn(work, (f"file://{tempfile.mktemp()}",), 2)
