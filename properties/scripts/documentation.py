"""The snippets of torch's documentation, one after another."""

import os

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch import optim
from torch.distributed.optim import DistributedOptimizer
from torch.distributed.rpc import RRef


def my_add(t1, t2):
    return torch.add(t1, t2)


def random_tensor():
    return torch.ones((3, 3), requires_grad=True)


def _run_process(rank, dst_rank, world_size):
    name, dst_name = f"worker{rank}", f"worker{dst_rank}"
    rpc.init_rpc(name=name, rank=rank, world_size=world_size)
    if rank == 0:
        with dist_autograd.context() as context_id:
            t1 = torch.ones((3, 3), requires_grad=True)
            t2 = torch.full((3, 3), 2.0, requires_grad=True)
            t3 = rpc.rpc_sync("worker1", my_add, args=(t1, t2))
            t4 = torch.full((3, 3), 0.5, requires_grad=True)
            t5 = torch.mul(t3, t4)
            loss = t5.sum()
            dist_autograd.backward(context_id, [loss])
            g = dist_autograd.get_gradients(context_id)
            print(g[t1], g[t2], g[t4])
        with dist_autograd.context() as context_id:
            rref1 = rpc.remote(dst_name, random_tensor)
            rref2 = rpc.remote(dst_name, random_tensor)
            loss = rref1.to_here() + rref2.to_here()
            dist_autograd.backward(context_id, [loss.sum()])
            dist_optim = DistributedOptimizer(optim.SGD, [rref1, rref2], lr=0.05)
            dist_optim.step(context_id)
            print(rref1.to_here(), rref2.to_here())
        with dist_autograd.context() as context_id:
            rref1 = rpc.remote("worker1", torch.add, args=(torch.ones(2), 3))
            rref2 = rpc.remote("worker1", torch.add, args=(torch.ones(2), 1))
            x = rref1.to_here() + rref2.to_here()
            print(x)
        fut1 = rpc.rpc_async("worker1", torch.add, args=(torch.ones(2), 3))
        fut2 = rpc.rpc_async("worker1", min, args=(1, 2))
        print(fut1.wait() + fut2.wait())
        print(rpc.rpc_sync("worker1", torch.add, args=(torch.ones(2), 3)))
        rref = rpc.remote("worker1", torch.add, args=(torch.zeros(2), 1))
        print(rref.rpc_sync().size())
        print(rref.remote().size().to_here())
        print(rref.rpc_async().view(1, 2).wait())
        print(rref.is_owner(), rref.owner(), rref.owner_name())
        x = torch.full((1,), 4.0, requires_grad=True)
        r = RRef(x * x)
        r.backward()
        print(x.grad)
        with dist_autograd.context() as cid:
            r = rpc.remote("worker1", torch.mul, args=(x, x))
            r2 = rpc.remote("worker1", torch.sum, args=(r.to_here(),))
            r2.backward(cid)
            print(dist_autograd.get_gradients(cid)[x])
    rpc.shutdown()


def run_process(rank, world_size):
    dst_rank = (rank + 1) % world_size
    _run_process(rank, dst_rank, world_size)


if __name__ == "__main__":
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "29500")
    mp.spawn(run_process, args=(2,), nprocs=2)
