"""A pipeline trained three times: each time new processes, at the same address."""

import os
import threading
import time

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
import torch.nn as nn
import torch.optim as optim
from torch.distributed.optim import DistributedOptimizer
from torch.distributed.rpc import RRef


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self._lock = threading.Lock()

    def parameter_rrefs(self):
        return [RRef(p) for p in self.parameters()]


class Shard1(Base):
    def __init__(self, device, *args, **kwargs):
        super().__init__()
        torch.manual_seed(11)
        self.device = device
        self.seq = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1, bias=False),
            nn.GroupNorm(2, 4),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
        ).to(device)

    def forward(self, x_rref):
        x = x_rref.to_here().to(self.device)
        with self._lock:
            out = self.seq(x)
        return out.cpu()


class Shard2(Base):
    def __init__(self, device, *args, **kwargs):
        super().__init__()
        torch.manual_seed(12)
        self.device = device
        self.seq = nn.Sequential(nn.Conv2d(4, 4, 3), nn.AdaptiveAvgPool2d((1, 1)))
        self.fc = nn.Linear(4, 10).to(device)

    def forward(self, x_rref):
        x = x_rref.to_here().to(self.device)
        with self._lock:
            out = self.fc(torch.flatten(self.seq(x), 1))
        return out.cpu()


class Dist(nn.Module):
    def __init__(self, split_size, workers, *args, **kwargs):
        super().__init__()
        self.split_size = split_size
        self.p1_rref = rpc.remote(workers[0], Shard1, args=("cpu", *args), kwargs=kwargs)
        self.p2_rref = rpc.remote(workers[1], Shard2, args=("cpu", *args), kwargs=kwargs)

    def forward(self, xs):
        out_futures = []
        for x in iter(xs.split(self.split_size, dim=0)):
            x_rref = RRef(x)
            y_rref = self.p1_rref.remote().forward(x_rref)
            z_fut = self.p2_rref.rpc_async().forward(y_rref)
            out_futures.append(z_fut)
        return torch.cat(torch.futures.wait_all(out_futures))

    def parameter_rrefs(self):
        remote_params = []
        remote_params.extend(self.p1_rref.remote().parameter_rrefs().to_here())
        remote_params.extend(self.p2_rref.remote().parameter_rrefs().to_here())
        return remote_params


def run_master(split_size):
    model = Dist(split_size, ["worker1", "worker2"])
    loss_fn = nn.MSELoss()
    opt = DistributedOptimizer(optim.SGD, model.parameter_rrefs(), lr=0.05)
    g = torch.Generator().manual_seed(1)
    one_hot_indices = torch.LongTensor(12).random_(0, 10, generator=g).view(12, 1)
    for i in range(3):
        inputs = torch.randn(12, 3, 16, 16, generator=g)
        labels = torch.zeros(12, 10).scatter_(1, one_hot_indices, 1)
        with dist_autograd.context() as context_id:
            outputs = model(inputs)
            loss = loss_fn(outputs, labels)
            dist_autograd.backward(context_id, [loss])
            opt.step(context_id)
        print(f"Processing batch {i} loss {loss.item():.5f}")


def run_worker(rank, world_size, num_split):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ.setdefault("MASTER_PORT", "29500")
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=256, rpc_timeout=300)
    if rank == 0:
        rpc.init_rpc("master", rank=rank, world_size=world_size, rpc_backend_options=options)
        run_master(num_split)
    else:
        rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size, rpc_backend_options=options)
    rpc.shutdown()


if __name__ == "__main__":
    world_size = 3
    for num_split in [1, 2, 4]:
        tik = time.time()
        mp.spawn(run_worker, args=(world_size, num_split), nprocs=world_size, join=True)
        tok = time.time()
        assert tok >= tik
        print(f"number of splits = {num_split} done")
