"""Threads that reduce large tensors at the same time, each in a group of its own."""

import threading

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
groups = [dist.new_group(list(range(size))) for _ in range(4)]


def reduce(number):
    for _ in range(10):
        values = torch.full((400_000 + number,), float(rank + number))
        dist.all_reduce(values, group=groups[number])
        expected = float(sum(range(size)) + size * number)
        assert values.min() == values.max() == expected


threads = [threading.Thread(target=reduce, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(rank, "ok")
