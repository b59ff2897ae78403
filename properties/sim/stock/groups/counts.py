"""Lists of another length than there are members: refused by each, before anything is sent."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()


def say(name, function):
    try:
        told = function()
    except RuntimeError as error:
        told = str(error).splitlines()[0]
    print(rank, name, told, flush=True)


def zeros(count):
    return [torch.zeros(2) for _ in range(count)]


def attempt(count):
    say(f"all_gather {count}", lambda: dist.all_gather(zeros(count), one))
    if rank == 0:
        say(f"gather {count}", lambda: dist.gather(one, zeros(count), 0))
        say(f"scatter {count}", lambda: dist.scatter(one, zeros(count), 0))
    say(f"reduce_scatter {count}", lambda: dist.reduce_scatter(one, zeros(count)))
    say(f"all_to_all from {count}", lambda: dist.all_to_all(zeros(2), zeros(count)))
    say(f"all_to_all to {count}", lambda: dist.all_to_all(zeros(count), zeros(2)))


one = torch.ones(2)
for count in (1, 3):
    attempt(count)
say("all_gather 0", lambda: dist.all_gather([], one))
dist.barrier()
