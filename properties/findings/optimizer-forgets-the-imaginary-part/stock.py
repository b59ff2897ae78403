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


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        leaf = torch.ones(1, dtype=torch.complex64, requires_grad=True)
        optimizer = DistributedOptimizer(optim.Rprop, [rpc.RRef(leaf)], lr=0.1)
        for _ in range(2):
            with dist_autograd.context() as context_id:
                dist_autograd.backward(context_id, [(leaf.real + leaf.imag).sum()])
                optimizer.step(context_id)
        imag = leaf.imag.item()
        report(
            abs(imag) < 0.1,
            f"the imaginary part moved by {imag:.2g}, {leaf.real.item() - 1:.2g} is right",
        )
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
