import tempfile
import warnings

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.nn.functional import all_reduce

warnings.filterwarnings("ignore", category=FutureWarning)


def work(rank, init):
    dist.init_process_group("gloo", init, world_size=2, rank=rank)
    x = torch.tensor([rank + 1.0], requires_grad=True)
    try:
        all_reduce(x, op=dist.ReduceOp.MAX).backward()
        grads = [torch.zeros(1) for _ in range(2)]
        dist.all_gather(grads, x.grad)
        found = [grad.item() for grad in grads]  # both ranks add their results to one loss
        word = "OK" if found == [0, 2] else "BUG"
        said = f"{word} the gradients of the larger of 1 and 2 are {found}, twice [0, 1]"
    except RuntimeError as error:
        said = f"OK {str(error).splitlines()[0]}"
    if rank == 0:
        print(said, flush=True)


if __name__ == "__main__":
    mp.spawn(work, (f"file://{tempfile.mktemp()}",), 2)
