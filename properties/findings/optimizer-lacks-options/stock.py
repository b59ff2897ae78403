import os
import tempfile

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch.distributed.optim import DistributedOptimizer

OPTIONS = ({"foreach": True}, {"fused": True}, {"differentiable": False})


def weight():
    return rpc.RRef(torch.nn.Parameter(torch.ones(2)))


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        failed = []
        for option in OPTIONS:
            rref = rpc.rpc_sync("w1", weight)
            try:
                optimizer = DistributedOptimizer(torch.optim.SGD, [rref], lr=0.1, **option)
                with dist_autograd.context() as context_id:
                    dist_autograd.backward(context_id, [rref.to_here().sum()])
                    optimizer.step(context_id)
            except (RuntimeError, TypeError) as error:
                failed.append(f"{option} {type(error).__name__}")
        print("BUG" if failed else "OK", "options of SGD that fail:", ", ".join(failed), flush=True)
        os._exit(0)
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
