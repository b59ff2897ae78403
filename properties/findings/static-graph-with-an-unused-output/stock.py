import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)

    def forward(self, x):
        return self.a(x), self.b(x)


def work(rank, init):
    dist.init_process_group("gloo", init, world_size=2, rank=rank)
    model = DistributedDataParallel(Model(), static_graph=True)
    said, done = "OK five steps", 0
    try:
        for _ in range(5):
            used, _ = model(torch.ones(1, 2))
            used.sum().backward()
            done += 1
    except RuntimeError as error:
        said = f"BUG after {done} steps: {str(error).partition(' before')[0]}"
    if rank == 0:
        print(said, flush=True)


if __name__ == "__main__":
    mp.spawn(work, (f"file://{tempfile.mktemp()}",), 2)
