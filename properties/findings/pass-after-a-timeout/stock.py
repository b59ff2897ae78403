import contextlib
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


LEAF = torch.ones(1, requires_grad=True)
NAPS = [6, 0]


def value():
    LEAF.register_hook(lambda _: time.sleep(NAPS.pop(0)))
    return LEAF * 1


def gradient(context_id):
    return [one.item() for one in dist_autograd.get_gradients(context_id).values()]


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init, rpc_timeout=5)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        with dist_autograd.context() as context_id:
            y = rpc.rpc_sync("w1", value)
            with contextlib.suppress(RuntimeError):  # it times out
                dist_autograd.backward(context_id, [(100 * y).sum()], retain_graph=True)
            dist_autograd.backward(context_id, [y.sum()])
            time.sleep(4)
            got = rpc.rpc_sync("w1", gradient, args=(context_id,))
        report(got != [1.0], f"the pass that succeeded gave the leaf {got}, [1.0] is right")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
