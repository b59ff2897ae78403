"""Data parallel training with DistributedDataParallel.

Every rank has a quarter of the batch (with four ranks) and a replica of the model. DDP averages the
gradients of the replicas, so that each has what one process would have computed from the whole
batch: a plain model beside it is trained in that way, and compared after every backward pass.

    torchrun --nproc-per-node 4 examples/ddp.py
    squall run examples/ddp.py --workers 4 --engine torch
"""

import copy

import torch
import torch.distributed as dist
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel

BATCH, FEATURES, HIDDEN, STEPS = 24, 6, 16, 5


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1)).double()


def train(rank, world_size):
    # Buckets of a few hundred bytes: there are several all_reduce operations in a backward pass.
    single = make_model()
    replica = DistributedDataParallel(copy.deepcopy(single), bucket_cap_mb=0.0005)
    optimizers = [optim.SGD(model.parameters(), lr=0.1) for model in (single, replica)]
    generator = torch.Generator().manual_seed(7)
    inputs = torch.randn(BATCH, FEATURES, generator=generator, dtype=torch.float64)
    targets = inputs.sin().sum(dim=1, keepdim=True)
    for step in range(1, STEPS + 1):
        for optimizer in optimizers:
            optimizer.zero_grad()
        whole = nn.functional.mse_loss(single(inputs), targets)
        whole.backward()
        mine = slice(rank, None, world_size)
        nn.functional.mse_loss(replica(inputs[mine]), targets[mine]).backward()
        for one, other in zip(single.parameters(), replica.parameters(), strict=True):
            torch.testing.assert_close(one.grad, other.grad)
        for optimizer in optimizers:
            optimizer.step()
        if rank == 0:
            print(f"step {step}  loss {whole.item():.6f}", flush=True)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(dist.get_rank(), dist.get_world_size())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
