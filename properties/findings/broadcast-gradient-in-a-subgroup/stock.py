import tempfile
import warnings

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.nn.functional import broadcast

warnings.filterwarnings("ignore", category=FutureWarning)


def work(rank, init):
    dist.init_process_group("gloo", init, world_size=3, rank=rank)
    group = dist.new_group([1, 2])
    x = torch.zeros(1, requires_grad=True)
    if rank:
        (broadcast(x, 1, group=group) * rank).sum().backward()
    grads = [torch.zeros(1) for _ in range(3)]
    dist.all_gather(grads, x.grad if rank else torch.zeros(1))
    if rank == 0:
        found = [grad.item() for grad in grads[1:]]
        word = "OK" if found == [3, 0] else "BUG"
        print(word, f"gradients of the source and of the other rank: {found}", flush=True)


if __name__ == "__main__":
    mp.spawn(work, (f"file://{tempfile.mktemp()}",), 3)
