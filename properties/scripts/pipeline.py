"""A model split over two workers by RRefs, micro-batches in flight together."""

import itertools
import os
import threading

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
import torch.nn as nn
import torch.optim as optim
from torch.distributed.optim import DistributedOptimizer
from torch.distributed.rpc import RRef


class Stage(nn.Module):
    def __init__(self, sizes, seed):
        super().__init__()
        self._lock = threading.Lock()
        torch.manual_seed(seed)
        layers = []
        for a, b in itertools.pairwise(sizes):
            layers += [nn.Linear(a, b), nn.ReLU()]
        self.seq = nn.Sequential(*layers).double()

    def forward(self, x_rref):
        x = x_rref.to_here()
        with self._lock:
            return self.seq(x)

    def parameter_rrefs(self):
        return [RRef(p) for p in self.parameters()]


class DistModel(nn.Module):
    def __init__(self, split_size, workers):
        super().__init__()
        self.split_size = split_size
        self.p1 = rpc.remote(workers[0], Stage, args=((6, 10, 8), 1))
        self.p2 = rpc.remote(workers[1], Stage, args=((8, 6, 3), 2))

    def forward(self, xs):
        outs = []
        for x in iter(xs.split(self.split_size, dim=0)):
            x_rref = RRef(x)
            y_rref = self.p1.remote().forward(x_rref)
            outs.append(self.p2.rpc_async().forward(y_rref))
        return torch.cat(torch.futures.wait_all(outs))

    def parameter_rrefs(self):
        return self.p1.remote().parameter_rrefs().to_here() + (
            self.p2.remote().parameter_rrefs().to_here()
        )


def run_master(split_size):
    model = DistModel(split_size, ["worker1", "worker2"])
    loss_fn = nn.MSELoss()
    opt = DistributedOptimizer(optim.Adam, model.parameter_rrefs(), lr=0.05)
    generator = torch.Generator().manual_seed(5)
    for step in range(5):
        inputs = torch.randn(12, 6, generator=generator, dtype=torch.float64)
        labels = torch.zeros(12, 3, dtype=torch.float64)
        labels[torch.arange(12), torch.arange(12) % 3] = 1
        with dist_autograd.context() as context_id:
            outputs = model(inputs)
            loss = loss_fn(outputs, labels)
            dist_autograd.backward(context_id, [loss])
            opt.step(context_id)
        print(f"split {split_size} step {step} loss {loss.item():.6f}")


def run_worker(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ.setdefault("MASTER_PORT", "29515")
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=128)
    if rank == 0:
        rpc.init_rpc("master", rank=rank, world_size=world_size, rpc_backend_options=options)
        for split_size in (3, 4):
            run_master(split_size)
    else:
        rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size, rpc_backend_options=options)
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run_worker, args=(3,), nprocs=3, join=True)
