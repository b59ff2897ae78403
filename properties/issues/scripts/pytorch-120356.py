# pytorch/pytorch#120356, 2 ranks
# A key that is another tensor on each rank: the checkpoint has that of one, and loading gives it to both
# Expected: an error, or each rank's own
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

dist.init_process_group("gloo")
rank = dist.get_rank()
folder = [tempfile.mkdtemp() if rank == 0 else None]
dist.broadcast_object_list(folder, 0)
dcp.save({"w": torch.full((2,), float(rank))}, checkpoint_id=folder[0])
state = {"w": torch.full((2,), -1.0)}
dcp.load(state, checkpoint_id=folder[0])
found = [None, None]
dist.all_gather_object(found, state["w"].tolist())
if rank == 0:
    print("OK" if found == [[0, 0], [1, 1]] else "BUG", f"loaded by the ranks: {found}", flush=True)
