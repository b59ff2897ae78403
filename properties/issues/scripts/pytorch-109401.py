# pytorch/pytorch#109401, 2 ranks
# isend and irecv that two ranks begin in different orders hang (on NCCL)
# Expected: each receive has its message, as each has its send
import datetime

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=10))
rank = dist.get_rank()
got = [torch.zeros(1) for _ in range(2)]
if rank == 0:
    works = [dist.isend(torch.ones(1), 1), dist.isend(torch.ones(1) * 2, 1)]
    works += [dist.irecv(each, 1) for each in got]
else:
    works = [dist.irecv(got[0], 0), dist.isend(torch.ones(1) * 3, 0)]
    works += [dist.irecv(got[1], 0), dist.isend(torch.ones(1) * 4, 0)]
for work in works:
    work.wait()
if rank == 0:
    found = [each.item() for each in got]
    print("OK" if found == [3, 4] else "BUG", f"received {found}", flush=True)
