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


def references():
    return [rpc.RRef(leaf) for leaf in LEAVES]


def doubled(which):
    return [2 * LEAVES[which]] + [leaf.item() for leaf in LEAVES]


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        leaves = rpc.rpc_sync("w1", references)
        optimizer = DistributedOptimizer(optim.ASGD, leaves, lr=0.125, lambd=0.0)
        for which in (0, 1):
            with dist_autograd.context() as context_id:
                loss = rpc.rpc_sync("w1", doubled, args=(which,))[0].sum()
                dist_autograd.backward(context_id, [loss])
                optimizer.step(context_id)
        now = rpc.rpc_sync("w1", doubled, args=(0,))[1:]
        report(now != [0.75, 0.75], f"{now} after a step of each, [0.75, 0.75] is right")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
