import os
import tempfile

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch import optim
from torch.distributed.optim import DistributedOptimizer


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


LEAF = torch.zeros(1, dtype=torch.double, requires_grad=True)


def reference():
    return rpc.RRef(LEAF)


def value():
    return LEAF * 1


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        optimizer = DistributedOptimizer(optim.SGD, [rpc.rpc_sync("w1", reference)])
        with dist_autograd.context() as context_id:
            dist_autograd.backward(context_id, [rpc.rpc_sync("w1", value).sum()])
            optimizer.step(context_id)
        there = rpc.rpc_sync("w1", value).item()
        (LEAF * 1).sum().backward()
        optim.SGD([LEAF]).step()
        report(there != LEAF.item(), f"a step without lr: {there}, of optim.SGD here {LEAF.item()}")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
