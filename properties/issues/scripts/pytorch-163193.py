# pytorch/pytorch#163193, 2 ranks
# A number that is added to a DTensor with a Partial placement is added once a rank
# Expected: the sum of 0 to 9, and 10: 55
import torch
import torch.distributed as dist
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2,))
total = distribute_tensor(torch.arange(10.0).reshape(10, 1), mesh, [Shard(0)]).sum()
found = [(total + each).full_tensor().item() for each in (torch.tensor(10), 10)]
if dist.get_rank() == 0:
    word = "OK" if found == [55, 55] else "BUG"
    print(word, f"plus a tensor, plus a number: {found}", flush=True)
