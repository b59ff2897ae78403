# run: --workers 3
# engines: port torch
# shows: (FileNotFoundError|No such file)
# fix: rpc.rpc_async(name, restore, args=(path,)) for name in ("worker1", "worker2") => rpc.rpc_async(name, restore, args=(path,)).wait() for name in ("worker1", "worker2")
# fix: future.wait() => future
"""Weights go to other workers of a machine by way of a file in a temporary folder."""

import os
import tempfile

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch import nn

model = nn.Linear(8, 8)


def describe(path):
    return os.path.basename(path)


def restore(path):
    rpc.rpc_sync("worker0", describe, args=(path,))
    model.load_state_dict(torch.load(path))  # <- second
    return model.weight.sum().item()


def publish():
    with tempfile.TemporaryDirectory() as folder:  # <- first
        path = os.path.join(folder, "weights.pt")
        torch.save(model.state_dict(), path)
        return [rpc.rpc_async(name, restore, args=(path,)) for name in ("worker1", "worker2")]


def main(rank):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "29571"
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=3)
    if rank == 0:
        for future in publish():
            future.wait()
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(main, nprocs=3)
