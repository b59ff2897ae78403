"""Members that go on under faults, and say what has become of each."""

import datetime
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
rank, began_s = dist.get_rank(), time.time()
try:
    for _ in range(20):
        values = torch.ones(3)
        dist.all_reduce(values)
        assert values.tolist() == [3.0] * 3
        dist.send(values, (rank + 1) % 3) if rank == 0 else dist.recv(values, (rank - 1) % 3)
        if rank == 1:
            dist.send(values, 2)
        time.sleep(0.1)
    told = "all"
except RuntimeError as error:
    told = str(error).rpartition("cc] ")[2].partition(".")[0]  # gloo says first where in its source
print(rank, told, round(time.time() - began_s), flush=True)
