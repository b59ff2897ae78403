"""tensordict: send, recv, reduce."""

import os

import torch
import torch.distributed as dist
from tensordict import TensorDict

rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
data = TensorDict({"a": torch.full((2,), rank + 1.0), "b": {"c": torch.zeros(2, 1)}}, [2])
if rank == 0:
    data.send(1)
else:
    data.recv(0)
print(rank, data["a"].tolist(), data["b", "c"].tolist())
data["a"] += rank
data.reduce(0)
print(rank, data["a"].tolist() if rank == 0 else "sent")
dist.destroy_process_group()
