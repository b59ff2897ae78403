import contextlib
import os
import tempfile
import time

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def passes():
    return int(dist_autograd._get_debug_info()["num_current_backward_passes"])


def fail(_):
    raise ValueError("no")


def failing(x):
    y = x.clone()
    y.register_hook(fail)
    return y


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=3, rpc_backend_options=options)
    if rank == 0:
        x = torch.ones(1, requires_grad=True)
        with contextlib.suppress(RuntimeError), dist_autograd.context() as context_id:
            a = rpc.rpc_sync("w1", torch.mul, args=(x, 2))
            b = rpc.rpc_sync("w2", failing, args=(a,))
            c = rpc.rpc_sync("w1", torch.mul, args=(b, 2))
            dist_autograd.backward(context_id, [c.sum()])
        time.sleep(3)
        left = rpc.rpc_sync("w1", passes)
        print("OK" if left == 0 else "BUG", left, "passes run on w1 after the release", flush=True)
        os._exit(0)
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    group = mp.start_processes(work, (init,), 3, join=False, start_method="fork")
    group.processes[0].join()
    group.join(0)  # shows the error, if there was one
    for process in group.processes:
        process.kill()
