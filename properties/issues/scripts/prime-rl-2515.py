# PrimeIntellect-ai/prime-rl#2515, 2 ranks
# A loop of evaluation that has fewer batches on one rank than on the others waits for it, in a collective of FSDP
# Expected: an error of a user's, told with both places
import datetime

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=10))
rank = dist.get_rank()
model = fully_shard(torch.nn.Linear(4, 4))
said = "OK all batches"
try:
    for _ in range(3 - rank):
        model(torch.ones(2, 4))
        model.reshard()
    dist.barrier()
except RuntimeError as error:
    said = f"BUG {type(error).__name__} without a word of the other rank's place"
if rank == 0:
    print(said, flush=True)
