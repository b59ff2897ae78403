# pytorch/pytorch#158016, 2 ranks
# all_to_all_single of tensors of different shapes has no defined result
# Expected: an error on both ranks
import datetime

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=10))
rank = dist.get_rank()
sent = torch.arange(4.0) if rank == 0 else torch.arange(8.0)
got = torch.full_like(sent, -1)
try:
    dist.all_to_all_single(got, sent)
    said = f"BUG no error, and rank 0 has {got.tolist()}"
except (RuntimeError, ValueError) as error:
    said = f"OK {str(error).splitlines()[0]}"
if rank == 0:
    print(said, flush=True)
