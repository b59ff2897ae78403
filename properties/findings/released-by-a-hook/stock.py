import contextlib
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def passes():
    return int(dist_autograd._get_debug_info()["num_current_backward_passes"])


def hooked(x, context_id):
    y = 2 * x
    y.register_hook(lambda _: dist_autograd._release_context(context_id))
    return y


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init, rpc_timeout=5)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        x = torch.ones(1, requires_grad=True)
        with contextlib.suppress(RuntimeError), dist_autograd.context() as context_id:
            y = rpc.rpc_sync("w1", torch.mul, args=(x, 2))
            z = rpc.rpc_sync("w1", hooked, args=(y, context_id))
            dist_autograd.backward(context_id, [z.sum()])
        time.sleep(3)
        left = ThreadPoolExecutor(1).submit(rpc.rpc_sync, "w1", passes).result()
        print("OK" if left == 0 else "BUG", left, "passes run on w1 after the release", flush=True)
        os._exit(0)
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    group = mp.start_processes(work, (init,), 2, join=False, start_method="fork")
    group.processes[0].join()
    group.join(0)  # shows the error, if there was one
    for process in group.processes:
        process.kill()
