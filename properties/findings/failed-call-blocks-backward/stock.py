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


def refuse(x):
    raise ValueError("refused")


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init, rpc_timeout=5)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        late = "backward of a local loss has not ended after 15 s, the time limit of calls is 5"
        threading.Timer(15, report, (True, late)).start()
        x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
        with dist_autograd.context() as context_id:
            with contextlib.suppress(ValueError):
                rpc.rpc_sync("w1", refuse, args=(x,))
            dist_autograd.backward(context_id, [(2 * y).sum()])
            report(False, f"gradient {dist_autograd.get_gradients(context_id)[y].tolist()}")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
