"""What a profiler records of each operation: names, shapes and that they end at another time."""

import os

import torch
import torch.distributed as dist
from torch.profiler import profile

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
x = torch.ones(3, 2)


def parts():
    return [torch.zeros(3, 2) for _ in range(size)]


def exchange(src):
    if rank == 0:
        dist.send(x, 1)
    elif rank == 1:
        dist.recv(torch.zeros(3, 2), src)


OPERATIONS = {
    "all_reduce": lambda: dist.all_reduce(x.clone()),
    "all_reduce_coalesced": lambda: dist.all_reduce_coalesced([x.clone(), torch.ones(5)]),
    "all_reduce of sparse": lambda: dist.all_reduce(torch.eye(3).to_sparse()),
    "reduce": lambda: dist.reduce(x.clone(), 0),
    "broadcast": lambda: dist.broadcast(x.clone(), 0),
    "all_gather": lambda: dist.all_gather(parts(), x),
    "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(torch.zeros(3 * size, 2), x),
    "gather": lambda: dist.gather(x, parts() if rank == 0 else None),
    "scatter": lambda: dist.scatter(torch.zeros(3, 2), parts() if rank == 0 else None),
    "reduce_scatter": lambda: dist.reduce_scatter(torch.zeros(3, 2), parts()),
    "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(x.clone(), torch.cat(parts())),
    "all_to_all": lambda: dist.all_to_all(parts(), parts()),
    "all_to_all_single": lambda: dist.all_to_all_single(torch.ones(6, 1), torch.ones(6, 1)),
    "barrier": lambda: dist.barrier(),
    "monitored_barrier": lambda: dist.monitored_barrier(),
    "send": lambda: exchange(0),
    "from any": lambda: exchange(None),
}
for name, operation in OPERATIONS.items():
    with profile(record_shapes=True) as profiled:
        operation()
    events = [
        f"{each.name}{each.input_shapes}{'' if each.is_async else ' at once'}"
        for each in profiled.events()
        if each.name.startswith("gloo:")
    ]
    # One write a line: lines of several processes do not mix.
    os.write(1, f"rank {rank} {name}: {' '.join(sorted(events)) or 'nothing'}\n".encode())
dist.destroy_process_group()
