import os
import tempfile
import threading

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def step(depth):
    """A pass in a context of its own; in a hook of it one more, and so on."""
    with torch.enable_grad(), dist_autograd.context() as context_id:
        y = 2 * torch.ones(1, requires_grad=True)
        if depth > 1:
            y.register_hook(lambda _: step(depth - 1))
        dist_autograd.backward(context_id, [y.sum()])


def work(rank, init):
    torch.set_num_interop_threads(2)
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        for depth in (2, 3):
            thread = threading.Thread(target=step, args=(depth,), daemon=True)
            thread.start()
            thread.join(15)
        text = "not ended after 15 s" if thread.is_alive() else "ended"
        print("BUG" if thread.is_alive() else "OK", f"{depth} passes, nested, {text}", flush=True)
        os._exit(0)
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    group = mp.start_processes(work, (init,), 2, join=False, start_method="fork")
    group.processes[0].join()
    group.join(0)  # shows the error, if there was one
    for process in group.processes:
        process.kill()
