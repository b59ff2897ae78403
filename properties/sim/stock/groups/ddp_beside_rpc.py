"""Two trainers with DistributedDataParallel, whose first layer is on a parameter server."""

import os

import torch
import torch.distributed as dist
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch import nn
from torch.distributed.optim import DistributedOptimizer
from torch.nn.parallel import DistributedDataParallel

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
TRAINERS = 2
SERVER = "server"


def layer():
    torch.manual_seed(3)
    return nn.Linear(4, 3).double()


def forward(rref, x):
    return rref.local_value()(x)


def parameters(rref):
    return [rpc.RRef(p) for p in rref.local_value().parameters()]


def train(rref, rank):
    torch.manual_seed(10 + rank)  # DistributedDataParallel gives all the parameters of rank 0
    model = DistributedDataParallel(nn.Sequential(nn.ReLU(), nn.Linear(3, 2)).double())
    remote = rpc.rpc_sync(SERVER, parameters, args=(rref,))
    local = [rpc.RRef(p) for p in model.parameters()]
    own = local if rank else remote + local
    optimizer = DistributedOptimizer(torch.optim.SGD, own, lr=0.05)
    torch.manual_seed(20 + rank)
    for step in range(3):
        with dist_autograd.context() as context:
            x = torch.randn(5, 4, dtype=torch.float64)
            loss = model(rpc.rpc_sync(SERVER, forward, args=(rref, x))).square().mean()
            dist_autograd.backward(context, [loss])
            grads = dist_autograd.get_gradients(context)
            mean = grads[next(model.parameters())].sum().item()
            print(f"{rank} step {step}: loss {loss.item():.6f}, gradient {mean:.6f}")
            dist.barrier()
            optimizer.step(context)
            dist.barrier()
    # what is left of DistributedDataParallel: a backward pass of one process, and no_sync
    with model.no_sync():
        model(torch.ones(1, 3, dtype=torch.float64) * (rank + 1)).sum().backward()
    alone = next(model.parameters()).grad.sum().item()
    model(torch.ones(1, 3, dtype=torch.float64) * (rank + 1)).sum().backward()
    print(f"{rank} no_sync {alone:.6f}, then {next(model.parameters()).grad.sum().item():.6f}")
    return float(loss)


def main():
    if RANK < TRAINERS:
        dist.init_process_group(
            "gloo", rank=RANK, world_size=TRAINERS, init_method="tcp://127.0.0.1:29511"
        )
    name = f"trainer{RANK}" if RANK < TRAINERS else (SERVER, "master")[RANK - TRAINERS]
    rpc.init_rpc(name, rank=RANK, world_size=SIZE)
    if name == "master":
        rref = rpc.remote(SERVER, layer)
        futures = [rpc.rpc_async(f"trainer{r}", train, args=(rref, r)) for r in range(TRAINERS)]
        print("losses", [f"{loss:.6f}" for loss in torch.futures.wait_all(futures)])
    rpc.shutdown()
    if RANK < TRAINERS:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
