import os
import tempfile

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch import nn


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Identity()


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        reference = rpc.remote("w1", Net)
        try:
            report(False, f"layer(1) gave {reference.rpc_sync().layer(1)}")
        except AttributeError as error:
            report(True, f"AttributeError: {error}")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
