import os
import tempfile

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch import nn


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


def double(x):
    return 2 * x


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        parameter = nn.Parameter(torch.ones(2))
        with dist_autograd.context() as context_id:
            loss = rpc.rpc_sync("w1", double, args=(parameter,)).sum()
            dist_autograd.backward(context_id, [loss])
            gradients = dist_autograd.get_gradients(context_id)
        report(
            parameter not in gradients,
            f"gradients of w0: {list(gradients.values())}, [2, 2] is right",
        )
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
