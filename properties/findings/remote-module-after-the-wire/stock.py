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


def apply(module, x):
    return module(x)


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        module = RemoteModule("w1/cpu", nn.Linear, args=(2, 2))
        assert module(torch.ones(2)).shape == (2,)
        try:
            report(False, f"it gave {rpc.rpc_sync('w1', apply, args=(module, torch.ones(2)))}")
        except Exception as error:
            report(True, str(error).splitlines()[1][:90])
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
