import os
import tempfile

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.nn import RemoteModule


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


def training(reference):
    return reference.local_value().training


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        remote = RemoteModule("w1/cpu", nn.Dropout)
        returned = remote.train(False)
        mode = rpc.rpc_sync("w1", training, args=(remote.get_module_rref(),))
        report(
            mode,
            f"training is {mode} after train(False), which returned a {type(returned).__name__}",
        )
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
