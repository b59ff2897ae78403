"""``torch.distributed.nn.RemoteModule``."""

import os

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.nn.api.remote_module import RemoteModule
from torch.distributed.optim import DistributedOptimizer


class Mine(nn.Module):
    def __init__(self, n, scale=1.0):
        super().__init__()
        torch.manual_seed(9)
        self.l = nn.Linear(n, n)
        self.scale = scale

    def forward(self, x, *, add=0.0):
        return self.l(x) * self.scale + add


def use(m, x):
    return m.forward(x)


def run(rank, world_size):
    # Sums of float32 depend on the width of the processor's vectors, in the digits printed here.
    torch.set_default_dtype(torch.float64)
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ.setdefault("MASTER_PORT", "29500")
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=world_size)
    if rank == 0:
        m = RemoteModule("w1/cpu", Mine, args=(3,), kwargs={"scale": 2.0})
        x = torch.ones(2, 3, requires_grad=True)
        opt = DistributedOptimizer(torch.optim.SGD, m.remote_parameters(), lr=0.1)
        for _ in range(2):
            with dist_autograd.context() as cid:
                y = m(x, add=1.0)
                z = m.forward_async(x).wait()
                loss = (y * z).sum()
                dist_autograd.backward(cid, [loss])
                opt.step(cid)
                print(
                    round(loss.item(), 4),
                    [round(v, 4) for v in dist_autograd.get_gradients(cid)[x].flatten().tolist()],
                )
        print(m.get_module_rref().owner_name(), type(m).__name__)
        try:
            m.add_module("x", nn.Linear(1, 1))
        except Exception as e:
            print(type(e).__name__, e)
        print(
            rpc.rpc_sync("w2", use, args=(m, torch.zeros(1, 3)))
            .detach()
            .flatten()
            .tolist()
            .__len__()
        )
        try:
            RemoteModule("nope/cpu", Mine, args=(3,))
        except Exception as e:
            print(type(e).__name__, str(e)[:100])
        try:
            RemoteModule("w1/cpu:x:y", Mine, args=(3,))
        except Exception as e:
            print(type(e).__name__, str(e)[:100])
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=(3,), nprocs=3)
