# run: --workers 3
# engines: port torch
# shows: AssertionError: evaluated version 0, version 1 was pushed
# fix: rpc.rpc_async("server", push, args=(version, torch.randn(3))) => rpc.rpc_sync("server", push, args=(version, torch.randn(3)))
"""A trainer pushes weights to a server, and asks an evaluator to fetch and judge them."""

import os

import torch
import torch.distributed.rpc as rpc

current = (0, torch.zeros(3))


def push(version, weights):
    global current
    current = (version, weights)


def fetch():
    return current


def evaluate(expected):
    version, weights = rpc.rpc_sync("server", fetch)  # <- second
    assert version == expected, f"evaluated version {version}, version {expected} was pushed"
    return weights.norm().item()


def train():
    for version in (1, 2):
        rpc.rpc_async("server", push, args=(version, torch.randn(3)))  # <- first
        print("norm", rpc.rpc_sync("evaluator", evaluate, args=(version,)))


if __name__ == "__main__":
    rank = int(os.environ["RANK"])
    rpc.init_rpc(["server", "evaluator", "trainer"][rank], rank=rank, world_size=3)
    if rank == 2:
        train()
    rpc.shutdown()
