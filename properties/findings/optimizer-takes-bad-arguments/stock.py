import contextlib
import os
import tempfile

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch import optim
from torch.distributed.optim import DistributedOptimizer


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


def reference():
    return rpc.RRef(torch.ones(1, requires_grad=True))


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        taken = []
        for arguments in (
            {"lr": -1.0},
            {"lr": 0.1, "nesterov": True},
            {"lr": 0.1, "momentum": -1.0},
        ):
            with contextlib.suppress(Exception):
                DistributedOptimizer(optim.SGD, [rpc.rpc_sync("w1", reference)], **arguments)
                taken.append(arguments)
        report(taken, f"arguments that optim.SGD refuses and DistributedOptimizer takes: {taken}")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
