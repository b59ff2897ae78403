# run: --workers 2
# engines: port torch
# shows: AssertionError: \d+ results are kept
# always: yes
# fix: pending.append(call) => pending[:] = [each for each in pending if not each.done()]
"""A client logs to a server without waiting; at the end it waits for what is under way."""

import os
import weakref

import torch
import torch.distributed.rpc as rpc

results = weakref.WeakSet()
pending = []


def log(values):
    return values.mean() + torch.zeros(1000)


def on_logged(future):
    results.add(future.value())


def train(steps):
    for step in range(steps):
        call = rpc.rpc_async("logger", log, args=(torch.rand(8),))
        call.add_done_callback(on_logged)
        pending.append(call)  # <- at fault
        rpc.rpc_sync("logger", torch.add, args=(torch.ones(1), step))
        del call
        kept = len(results)
        assert kept <= 5, f"{kept} results are kept after {step + 1} steps"
    torch.futures.wait_all(pending)


if __name__ == "__main__":
    rank = int(os.environ["RANK"])
    rpc.init_rpc("trainer" if rank == 0 else "logger", rank=rank, world_size=2)
    if rank == 0:
        train(20)
    rpc.shutdown()
