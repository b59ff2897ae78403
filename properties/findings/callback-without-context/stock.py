import os
import tempfile
import time

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


def double(x):
    return 2 * x


def later():
    time.sleep(0.5)


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        x = torch.ones(2, requires_grad=True)
        with dist_autograd.context() as context_id:
            future = rpc.rpc_async("w1", later)
            future = future.then(lambda _: rpc.rpc_sync("w1", double, args=(x,)))
            dist_autograd.backward(context_id, [future.wait().sum()])
            gradients = dist_autograd.get_gradients(context_id)
        report(
            x not in gradients, f"{len(gradients)} gradient, {'' if x in gradients else 'not '}of x"
        )
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
