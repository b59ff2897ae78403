"""Modules that live elsewhere, trained through RRefs with a distributed optimizer."""

import os

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.distributed.optim import DistributedOptimizer


class Shard(nn.Module):
    def __init__(self, n_in, n_out, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.linear = nn.Linear(n_in, n_out)

    def forward(self, x):
        return torch.tanh(self.linear(x))

    def parameter_rrefs(self):
        return [rpc.RRef(p) for p in self.parameters()]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = rpc.remote("worker1", Shard, args=(4, 8, 1))
        self.second = rpc.remote("worker2", Shard, args=(8, 3, 2))
        torch.manual_seed(3)
        self.last = nn.Linear(3, 2)

    def forward(self, x):
        h = self.first.rpc_sync().forward(x)
        h = self.second.rpc_async().forward(h).wait()
        return self.last(h)

    def parameter_rrefs(self):
        rrefs = [rpc.RRef(p) for p in self.last.parameters()]
        rrefs.extend(self.first.rpc_sync().parameter_rrefs())
        rrefs.extend(self.second.remote().parameter_rrefs().to_here())
        return rrefs


def run_master():
    model = Model()
    optimizer = DistributedOptimizer(optim.SGD, model.parameter_rrefs(), lr=0.2, momentum=0.9)
    torch.manual_seed(7)
    inputs = torch.randn(16, 4)
    labels = (inputs.sum(dim=1) > 0).long()
    for step in range(8):
        with dist_autograd.context() as context_id:
            loss = F.cross_entropy(model(inputs), labels)
            dist_autograd.backward(context_id, [loss])
            optimizer.step(context_id)
            print(f"step {step} loss {loss.item():.5f}")


def run_worker(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ.setdefault("MASTER_PORT", "29503")
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=8, rpc_timeout=30)
    name = "master" if rank == 0 else f"worker{rank}"
    rpc.init_rpc(name, rank=rank, world_size=world_size, rpc_backend_options=options)
    if rank == 0:
        run_master()
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run_worker, args=(3,), nprocs=3, join=True)
