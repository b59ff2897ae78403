"""One collective of 256 Ki elements on each rank, all of which call it at the same time."""

import sys

import torch
import torch.distributed as dist

SIZE = 1 << 18

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
x = torch.full((SIZE,), float(rank + 1))
total = ranks * (ranks + 1) / 2
match sys.argv[1]:
    case "all_reduce":
        dist.all_reduce(x)
        assert bool((x == total).all())
    case "reduce":
        dist.reduce(x, 1)
        assert rank != 1 or bool((x == total).all())
    case "broadcast":
        dist.broadcast(x, 1)
        assert bool((x == 2).all())
    case "all_gather":
        got = [torch.empty_like(x) for _ in range(ranks)]
        dist.all_gather(got, x)
        assert [int(each[0]) for each in got] == [*range(1, ranks + 1)]
    case "all_to_all":
        got = torch.empty_like(x)
        dist.all_to_all_single(got, x)
        assert sorted(set(got.tolist())) == [*range(1, ranks + 1)]
    case "gather":
        dist.gather(x, [torch.empty_like(x) for _ in range(ranks)] if rank == 1 else None, dst=1)
    case "scatter":
        dist.scatter(
            x, [torch.full_like(x, each) for each in range(ranks)] if rank == 1 else None, src=1
        )
        assert bool((x == rank).all())
    case "reduce_scatter":
        part = torch.empty(SIZE // ranks)
        dist.reduce_scatter(part, [*x.chunk(ranks)])
        assert bool((part == total).all())
    case "barrier":
        dist.barrier()
    case "send":
        if rank == 0:
            dist.send(x, 1)
        elif rank == 1:
            dist.recv(x, 0)
            assert bool((x == 1).all())
# No rank leaves before all are here: what is measured is over for all.
dist.destroy_process_group()
