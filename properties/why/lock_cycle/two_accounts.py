# run: --workers 2
# engines: port torch
# shows: (deadlock|hang):
# fix: with lock:\n        global_step["n"] += 1\n        rpc.rpc_sync(peer, average_in, args=(weights,), timeout=0) => with lock:\n        global_step["n"] += 1\n    rpc.rpc_sync(peer, average_in, args=(weights,), timeout=0)
"""Gossip: each worker sends its weights to the other one, which takes the average."""

import os
import threading

import torch
import torch.distributed.rpc as rpc

lock = threading.RLock()
weights = torch.zeros(4)
global_step = {"n": 0}


def average_in(theirs):
    with lock:  # <- second
        weights.add_(theirs).div_(2)
    return True


def step(peer):
    with lock:
        global_step["n"] += 1
        rpc.rpc_sync(peer, average_in, args=(weights,), timeout=0)  # <- first


if __name__ == "__main__":
    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
    weights += rank
    for _ in range(3):
        step(f"worker{1 - rank}")
    rpc.shutdown()
    print(rank, weights.tolist())
