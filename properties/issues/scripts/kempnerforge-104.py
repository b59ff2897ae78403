# KempnerInstitute/KempnerForge#104, 2 ranks
# async_save's thread and collectives of the main thread meet in one process group
# Expected: the checkpoints are written, and each all_reduce has its sum
import datetime
import os
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=10))
folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
dist.broadcast_object_list(folder, 0)
said = "OK 20 checkpoints"
try:
    for step in range(20):
        saving = dcp.async_save({"w": torch.ones(4)}, checkpoint_id=f"{folder[0]}/{step}")
        total = torch.ones(1)
        dist.barrier()
        dist.all_reduce(total)
        if total.item() != 2:
            said = f"BUG the sum of two ones is {total.item()}"
        saving.result()
except Exception:
    said = "BUG async_save() or a collective beside it failed"
if dist.get_rank() == 0:
    print(said, flush=True)
os._exit(0)
