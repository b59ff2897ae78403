# pytorch/pytorch#192920, 2 ranks
# scatter, broadcast and reduce on gloo take a column of a matrix for what lies in memory behind its first element
# Expected: what rank 0 has
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
table = torch.tensor([[5.0 * rank, 0.0], [5.0 * rank, 1.0]])
dist.broadcast(table[:, 0], src=0)
if rank == 1:
    found = table[:, 0].tolist()
    print(
        "OK" if found == [0, 0] else "BUG",
        f"broadcast of [0.0, 0.0] has come as {found}",
        flush=True,
    )
dist.destroy_process_group()
