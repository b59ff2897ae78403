"""RRefs made, shared, fetched and used in the forward pass."""

import os
import time

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch.distributed.rpc import RRef


def make(n, scale):
    return torch.full((n,), float(scale), requires_grad=True)


def add_fetched(rref, y):
    return rref.to_here() + y


def scale_local(rref, factor):
    return rref.local_value() * factor


def describe(rref):
    me = rpc.get_worker_info().name
    return f"{me}: is_owner={rref.is_owner()} owner={rref.owner_name()} id={rref.owner().id}"


def gradients_here(context_id):
    found = dist_autograd.get_gradients(context_id)
    return sorted((tuple(k.shape), v.tolist()) for k, v in found.items())


def run(rank, world_size):
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "29502")
    rpc.init_rpc(name=f"worker{rank}", rank=rank, world_size=world_size)
    if rank == 0:
        rref1 = rpc.remote("worker1", make, args=(2, 3))
        rref2 = rpc.remote("worker2", make, args=(2, 5))
        local = RRef(torch.ones(2, requires_grad=True))
        print(describe(rref1), "|", describe(local))
        print(rpc.rpc_sync("worker2", describe, args=(rref1,)))
        print(rpc.rpc_sync("worker1", describe, args=(rref1,)))
        print(rpc.rpc_sync("worker2", describe, args=(local,)))
        with dist_autograd.context() as context_id:
            a = rref1.to_here()
            b = rpc.rpc_sync("worker2", add_fetched, args=(rref1, a * 2))
            c = rpc.rpc_sync("worker1", add_fetched, args=(rref2, b))
            d = rpc.remote("worker1", add_fetched, args=(local, c)).to_here()
            e = rpc.rpc_async("worker1", scale_local, args=(rref1, 7)).wait()
            loss = (a * b + c * d + e).sum()
            print("loss", loss.item())
            dist_autograd.backward(context_id, [loss])
            print("worker0", gradients_here(context_id))
            for other in ("worker1", "worker2"):
                print(other, rpc.rpc_sync(other, gradients_here, args=(context_id,)))
        while not rref1.confirmed_by_owner():
            time.sleep(0.01)
        print("confirmed")
        print("helper", rref1.rpc_sync().size(), rref1.remote().sum().to_here().item())
        print("helper", rref1.rpc_async().add(1).wait().tolist())
        print("type", rref2._get_type().__name__)
    rpc.shutdown()


if __name__ == "__main__":
    world_size = 3
    mp.spawn(run, args=(world_size,), nprocs=world_size, join=True)
