# run: --workers 3
# engines: port torch
# shows: KeyError: 'policy'
# fix: rpc.rpc_async("server", register, args=("policy", [4, 2])) => rpc.rpc_sync("server", register, args=("policy", [4, 2]))
"""A learner registers a model on a server, and actors ask the server what it says."""

import os

import torch
import torch.distributed.rpc as rpc
from torch import nn

models = {}


def register(name, sizes):
    torch.manual_seed(0)
    models[name] = nn.Linear(*sizes)  # <- first


def act(name, observation):
    return models[name](observation).argmax().item()  # <- second


def episode(steps):
    observation = torch.linspace(-1, 1, 4)
    return [rpc.rpc_sync("server", act, args=("policy", observation * n)) for n in range(steps)]


def learner():
    rpc.rpc_async("server", register, args=("policy", [4, 2]))
    actions = rpc.rpc_sync("actor", episode, args=(3,))
    print("actions", actions)


if __name__ == "__main__":
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    rpc.init_rpc(("learner", "server", "actor")[rank], rank=rank, world_size=size)
    if rank == 0:
        learner()
    rpc.shutdown()
