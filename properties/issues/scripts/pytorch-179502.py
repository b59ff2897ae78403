# pytorch/pytorch#179502, 6 ranks
# DTensor.view that flattens and splits a sharded dimension gives wrong values
# Expected: the values of a plain tensor, or an error
import torch
import torch.distributed as dist
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

dist.init_process_group("gloo")
wrong = []
for shape, size, placements, to in (
    ((2, 3), (4, 4, 4), [Shard(1), Replicate()], (8, 8)),
    ((6,), (12, 8), [Shard(1)], (16, 6)),
):
    mesh = init_device_mesh("cpu", shape)
    whole = torch.arange(float(torch.Size(size).numel())).reshape(size)
    try:
        viewed = distribute_tensor(whole, mesh, placements).view(to).full_tensor()
        if not torch.equal(viewed, whole.view(to)):
            wrong.append(to)
    except RuntimeError:
        pass
if dist.get_rank() == 0:
    print("BUG" if wrong else "OK", f"wrong values of views to {wrong}", flush=True)
