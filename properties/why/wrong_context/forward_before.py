# run: --workers 2
# engines: port torch
# shows: AssertionError: the encoder has not learned
# always: yes
# fix: features = rpc.rpc_sync("encoder", encode, args=(batch,)) => pass
# fix: loss = (features - batch) => features = rpc.rpc_sync("encoder", encode, args=(batch,))\n            loss = (features - batch)
"""A loss over features that an encoder on another worker computes."""

import os

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.optim import DistributedOptimizer

encoder = nn.Linear(4, 4)


def encode(batch):
    return encoder(batch)


def parameters():
    return [rpc.RRef(each) for each in encoder.parameters()]


def weight_sum():
    return encoder.weight.sum().item()


def train(steps):
    before = rpc.rpc_sync("encoder", weight_sum)
    optimizer = DistributedOptimizer(torch.optim.SGD, rpc.rpc_sync("encoder", parameters), lr=0.1)
    for _ in range(steps):
        batch = torch.randn(8, 4)
        features = rpc.rpc_sync("encoder", encode, args=(batch,))  # <- at fault
        with dist_autograd.context() as context_id:
            loss = (features - batch).square().mean()
            dist_autograd.backward(context_id, [loss])
            optimizer.step(context_id)
    assert rpc.rpc_sync("encoder", weight_sum) != before, "the encoder has not learned"


def main(rank):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "29551"
    rpc.init_rpc("encoder" if rank else "trainer", rank=rank, world_size=2)
    if rank == 0:
        train(2)
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(main, nprocs=2)
