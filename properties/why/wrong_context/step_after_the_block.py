# run: --workers 2
# engines: port torch
# shows: RuntimeError: .*(context|Could not find)
# always: yes
# fix: dist_autograd.backward(context_id, [loss]) => dist_autograd.backward(context_id, [loss])\n        optimizer.step(context_id)
# fix: optimizer.step(context_id)  # => losses  #
"""One step of training with a DistributedOptimizer and a RemoteModule."""

import os

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.nn.api.remote_module import RemoteModule
from torch.distributed.optim import DistributedOptimizer

losses = []


def step(model, head, optimizer, batch):
    with dist_autograd.context() as context_id:
        loss = head(model.forward(batch)).square().mean()
        dist_autograd.backward(context_id, [loss])
    optimizer.step(context_id)  # <- at fault
    losses.append(loss.item())


def train():
    model = RemoteModule("server/cpu", nn.Linear, args=(4, 4))
    head = nn.Linear(4, 1)
    parameters = [*model.remote_parameters(), *map(rpc.RRef, head.parameters())]
    optimizer = DistributedOptimizer(torch.optim.SGD, parameters, lr=0.05)
    for seed in range(3):
        torch.manual_seed(seed)
        step(model, head, optimizer, torch.randn(6, 4))
    print(losses)


def main(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "29552"
    rpc.init_rpc(["trainer", "server"][rank], rank=rank, world_size=world_size)
    if rank == 0:
        train()
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(main, args=(2,), nprocs=2)
