"""Training with sharded parameters: fully_shard (FSDP2).

Every rank holds a part of each parameter, of its gradient and of the optimizer's state, and has a
part of the batch. A layer is gathered when it is computed, and its gradients are scattered when
they are known. A plain model that is trained on the whole batch beside it shows that gradients are
those of one process.

    torchrun --nproc-per-node 4 examples/fsdp.py
    squall run examples/fsdp.py --workers 4 --engine torch
"""

import copy

import torch
import torch.distributed as dist
from torch import nn, optim
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

BATCH, FEATURES, HIDDEN, STEPS = 24, 6, 16, 5


def make_model():
    torch.manual_seed(0)
    layers = [nn.Linear(FEATURES, HIDDEN), nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, 1)]
    return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2]).double()


def train(rank, world_size):
    mesh = init_device_mesh("cpu", (world_size,))
    single = make_model()
    sharded = copy.deepcopy(single)
    for layer in sharded:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    optimizers = [optim.AdamW(model.parameters(), lr=0.05) for model in (single, sharded)]
    generator = torch.Generator().manual_seed(7)
    inputs = torch.randn(BATCH, FEATURES, generator=generator, dtype=torch.float64)
    targets = inputs.sin().sum(dim=1, keepdim=True)
    for step in range(1, STEPS + 1):
        for optimizer in optimizers:
            optimizer.zero_grad()
        whole = nn.functional.mse_loss(single(inputs), targets)
        whole.backward()
        mine = slice(rank, None, world_size)
        nn.functional.mse_loss(sharded(inputs[mine]), targets[mine]).backward()
        for one, other in zip(single.parameters(), sharded.parameters(), strict=True):
            torch.testing.assert_close(one.grad, other.grad.full_tensor())
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
