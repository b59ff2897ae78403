import os
import tempfile
import threading
import time

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def passes():
    return int(dist_autograd._get_debug_info()["num_current_backward_passes"])


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        x = torch.ones(1, requires_grad=True)
        with dist_autograd.context() as context_id:
            later, sooner = (rpc.rpc_sync("w1", torch.mul, args=(x, n)) for n in (2, 3))
            later.register_hook(lambda _: time.sleep(4))
            roots = [(sooner + later).sum()]
            thread = threading.Thread(target=dist_autograd.backward, args=(context_id, roots))
            thread.start()
            time.sleep(2)  # w1 has one of its two gradients
        thread.join()  # it raises: the context is gone
        time.sleep(1)
        left = rpc.rpc_sync("w1", passes)
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
