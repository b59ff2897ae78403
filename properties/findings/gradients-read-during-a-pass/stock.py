import contextlib
import os
import tempfile
import threading

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


def look(context_id):
    with contextlib.suppress(RuntimeError):  # the context is over
        while True:
            dist_autograd.get_gradients(context_id)


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        for _ in range(5):
            with dist_autograd.context() as context_id:
                for _ in range(3):
                    threading.Thread(target=look, args=(context_id,), daemon=True).start()
                for _ in range(40):
                    leaves = [torch.ones(1, requires_grad=True) for _ in range(2000)]
                    dist_autograd.backward(context_id, [torch.stack(leaves).sum()])
        report(False, "200 passes with three threads that read their gradients")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    first = mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0]
    first.join()
    if first.exitcode < 0:
        print(f"BUG the process of w0 died by signal {-first.exitcode}")
