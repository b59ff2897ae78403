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


def doubled():
    return [2 * leaf for leaf in LEAVES[1:]] + [leaf.item() for leaf in LEAVES]


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        optimizer = DistributedOptimizer(optim.Adagrad, rpc.rpc_sync("w1", references), lr=0.5)
        with dist_autograd.context() as context_id:
            dist_autograd.backward(context_id, [rpc.rpc_sync("w1", doubled)[0].sum()])
            try:
                optimizer.step(context_id)
            except ValueError as error:
                report(True, f"a step of the second raised {str(error).splitlines()[1][:60]}")
        now = rpc.rpc_sync("w1", doubled)[1:]
        report(
            now != [1.0, 0.5], f"parameters {now} after a step of the second, [1.0, 0.5] is right"
        )
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
