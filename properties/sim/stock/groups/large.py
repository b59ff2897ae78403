"""Tensors of a megabyte and more, which go from process to process in files in memory."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
LARGE = 1 << 19


def show(what: str, tensor: torch.Tensor) -> None:
    ends = tensor.reshape(-1)[[0, 1, -1]].tolist()
    print(rank, what, tuple(tensor.shape), ends, float(tensor.double().sum()), flush=True)


values = torch.arange(LARGE, dtype=torch.float32) * (rank + 1)
total = values.clone()
dist.all_reduce(total)
show("all_reduce", total)
total.mul_(2)  # what a rank writes to its result is nobody else's
dist.barrier()
show("written", total)

parts = [torch.empty(LARGE) for _ in range(size)]
dist.all_gather(parts, values)
show("all_gather", torch.stack(parts))

turned = (
    values.to(torch.float64).reshape(-1, 1024) if rank == 0 else torch.empty(512, 1024).double()
).t()
contiguous = turned.contiguous()
dist.broadcast(contiguous, 0)
show("broadcast", contiguous)

mine = torch.empty(LARGE // size)
dist.reduce_scatter(mine, list((values[: size * (LARGE // size)]).chunk(size)))
show("reduce_scatter", mine)

if rank == 0:
    work = dist.isend(values, 1)
    work.wait()
elif rank == 1:
    came = torch.empty(LARGE)
    dist.recv(came, 0)
    show("recv", came)

both = [torch.ones(3) * rank, values.clone()]
work = [dist.all_reduce(each, async_op=True) for each in both]
for each in work:
    each.wait()
show("small beside", both[0])
show("large beside", both[1])
dist.destroy_process_group()
