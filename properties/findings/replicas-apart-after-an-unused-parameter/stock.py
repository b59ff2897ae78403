import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)

    def forward(self, x):
        return self.used(x)


def work(rank, init):
    dist.init_process_group("gloo", init, world_size=2, rank=rank)
    model = DistributedDataParallel(Model())
    model(torch.full((1, 1), rank + 1.0)).sum().backward()
    grads = [torch.zeros(1, 1) for _ in range(2)]
    dist.all_gather(grads, model.module.used.weight.grad)
    if rank == 0:
        found = [grad.item() for grad in grads]
        word = "OK" if found == [1.5, 1.5] else "BUG"
        print(word, f"the gradients of two replicas are {found}, their mean is 1.5", flush=True)


if __name__ == "__main__":
    mp.spawn(work, (f"file://{tempfile.mktemp()}",), 2)
