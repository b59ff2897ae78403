"""Tensors whose elements do not lie in one piece: parts of others, and transposed ones. Some operations copy them, some take
what lies in memory from the first element on, some refuse them."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, other = dist.get_rank(), 1 - dist.get_rank()


def part(tensor):
    return tensor[:, :2]


def table(begin=0):
    return (torch.arange(6.0) + 10 * rank + begin).reshape(2, 3)


def show(what, *tensors):
    print(f"rank {rank} {what}: {[each.tolist() for each in tensors]}", flush=True)


def refused(what, function, *args):
    try:
        function(*args)
    except (RuntimeError, ValueError) as error:
        print(f"rank {rank} {what}: {error}", flush=True)


for name, view in (("part", part), ("transposed", torch.t)):
    whole = table()
    dist.all_reduce(view(whole))
    show(f"all_reduce {name}", whole)
    whole = table()
    dist.reduce(view(whole), 0)
    show(f"reduce {name}", whole)
    whole = table()
    dist.broadcast(view(whole), 0)
    show(f"broadcast {name}", whole)
    whole, both = table(), [view(table()), view(table(100))]
    dist.scatter(view(whole), both if rank == 0 else None, 0)
    show(f"scatter {name}", whole)
    whole, both = torch.zeros(2, 3), [view(table()), view(table(100))]
    dist.reduce_scatter(view(whole), both)
    show(f"reduce_scatter {name}", whole)
    wholes = [torch.zeros(2, 3) for _ in range(2)]
    dist.all_gather([*map(view, wholes)], view(table()))
    show(f"all_gather {name}", *wholes)
    wholes = [torch.zeros(2, 3) for _ in range(2)]
    dist.gather(view(table()), [*map(view, wholes)] if rank == 0 else None, 0)
    show(f"gather {name}", *wholes)
    wholes = [torch.zeros(2, 3) for _ in range(2)]
    dist.all_to_all([*map(view, wholes)], [view(table()), view(table(100))])
    show(f"all_to_all {name}", *wholes)
    whole = torch.zeros(4, 6)
    into = view(whole)
    dist.all_to_all_single(into, torch.full(into.shape, rank + 1.0))
    show(f"all_to_all_single {name}", whole)
    refused(f"all_to_all_single of {name}", dist.all_to_all_single, torch.zeros(into.shape), into)
    refused(f"send {name}", dist.send, view(table()), other)
    refused(f"recv {name}", dist.recv, view(table()), other)

for elements in (1, 5, 50):
    for root in range(2):
        tensor = torch.arange(float(elements)) * (rank + 1)
        dist.reduce(tensor, root)
        show(f"reduce of {elements} to {root}, and what is left", tensor)
