import os
import tempfile

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.nn import RemoteModule


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


def normed():
    module = nn.Linear(1, 1, bias=False)
    nn.init.constant_(module.weight, 2)
    return nn.utils.weight_norm(module)


def scale(reference):
    nn.init.constant_(reference.local_value().weight_g, 10)


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        remote = RemoteModule("w1/cpu", normed)
        rpc.rpc_sync("w1", scale, args=(remote.get_module_rref(),))
        now = remote(torch.ones(1, 1)).item()
        report(abs(now) < 9.9, f"weight_g is 10, the module multiplies by {abs(now):.2g}")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
