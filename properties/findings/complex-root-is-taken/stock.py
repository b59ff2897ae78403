import os
import tempfile

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


def turn(x):
    return x * (1 + 2j)


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        x = torch.ones(1, requires_grad=True)
        with dist_autograd.context() as context_id:
            loss = rpc.rpc_sync("w1", turn, args=(x,)).sum()
            try:
                dist_autograd.backward(context_id, [loss])
            except RuntimeError as error:
                report(False, f"refused: {error}")
            report(
                True,
                f"a complex loss is taken, gradient {dist_autograd.get_gradients(context_id)[x]}",
            )
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
