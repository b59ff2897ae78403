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


LEAVES = [torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)]


def reference():
    return rpc.RRef(LEAVES[1])


def both():
    return [leaf * 1 for leaf in LEAVES]


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        unused = rpc.rpc_sync("w1", reference)
        optimizer = DistributedOptimizer(optim.SGD, [unused], lr=0.5, weight_decay=1.0)
        with dist_autograd.context() as context_id:
            dist_autograd.backward(context_id, [rpc.rpc_sync("w1", both)[0].sum()])
            optimizer.step(context_id)
        now = unused.to_here().item()
        report(now != 1, f"the parameter that was not used is {now} after a step, 1.0 is right")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
