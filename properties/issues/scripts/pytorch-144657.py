# pytorch/pytorch#144657, 1 ranks
# async_save writes what a CPU tensor became after it returned
# Expected: what it was when async_save was called
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

dist.init_process_group("gloo")
weight = torch.ones(1, 1)
folders, savings = [tempfile.mkdtemp() for _ in range(20)], []
for step, folder in enumerate(folders):
    weight.fill_(step)
    savings.append(dcp.async_save({"weight": weight}, checkpoint_id=folder))
    weight.fill_(-1)
    savings[-1].result()
found = []
for folder in folders:
    state = {"weight": torch.zeros(1, 1)}
    dcp.load(state, checkpoint_id=folder)
    found.append(state["weight"].item())
print("OK" if found == list(range(20)) else "BUG", "20 checkpoints", flush=True)
