import os
import tempfile

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.nn import RemoteModule


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


class Hybrid(nn.Module):
    def __init__(self):
        super().__init__()
        self.remote = RemoteModule("w1/cpu", nn.Linear, args=(2, 2))
        self.local = nn.Linear(2, 2)


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        try:
            report(False, f"{len(list(Hybrid().parameters()))} parameters")
        except ValueError as error:
            report(True, f"parameters() of the whole: {error}")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
