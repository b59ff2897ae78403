import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict


def work(rank, init):
    dist.init_process_group("gloo", init, world_size=1, rank=rank)
    found = []
    for asked in (False, True):
        layer = torch.nn.Linear(1, 1, bias=False)
        optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
        before = layer.weight.item()
        if asked:
            get_optimizer_state_dict(layer, optimizer)
        layer(torch.ones(1, 1)).sum().backward()
        optimizer.step()
        found.append(round(before - layer.weight.item(), 3))
    word = "OK" if found == [0.1, 0.1] else "BUG"
    print(
        word, f"the first step of Adam, without and with a look at its state: {found}", flush=True
    )


if __name__ == "__main__":
    mp.spawn(work, (f"file://{tempfile.mktemp()}",), 1)
