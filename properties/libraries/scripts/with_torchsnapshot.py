"""torchsnapshot: a snapshot taken and restored."""

import os
import tempfile

import torch
import torch.distributed as dist
from torchsnapshot import Snapshot, StateDict

rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
folder = [tempfile.mkdtemp() if rank == 0 else None]
dist.broadcast_object_list(folder)
state = {"state": StateDict(x=torch.full((3,), rank + 1.0), step=7)}
Snapshot.take(folder[0], state)
state["state"]["x"].zero_()
Snapshot(folder[0]).restore(state)
print(
    rank,
    state["state"]["x"].tolist(),
    state["state"]["step"],
    sorted(Snapshot(folder[0]).get_manifest())[:4],
)
dist.destroy_process_group()
