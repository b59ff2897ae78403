# pytorch/pytorch#145965, 2 ranks
# Loading a checkpoint into other keys on each rank: whether it says so, or hangs
# Expected: it loads what is asked for, since the check of keys was taken out (#145998)
import datetime
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=10))
rank = dist.get_rank()
folder = [tempfile.mkdtemp() if rank == 0 else None]
dist.broadcast_object_list(folder, 0)
dcp.save({f"w{rank}": torch.full((2,), rank + 1.0)}, checkpoint_id=folder[0])
state = {f"w{1 - rank}": torch.zeros(2)}
dcp.load(state, checkpoint_id=folder[0])
if rank == 0:
    found = state["w1"].tolist()
    print(
        "OK" if found == [2, 2] else "BUG", f"rank 1's tensor, read by rank 0: {found}", flush=True
    )
