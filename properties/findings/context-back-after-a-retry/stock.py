import contextlib
import os
import tempfile
import time

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def double(x, _):
    return 2 * x


def contexts():
    return int(dist_autograd._get_debug_info()["num_autograd_contexts"])


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=3, rpc_backend_options=options)
    if rank == 0:
        x = torch.ones(1, requires_grad=True)
        rref = rpc.remote("w1", torch.neg, args=(torch.ones(1),))
        rref.to_here()
        for _ in range(16):
            rpc.rpc_async("w1", time.sleep, args=(4,))  # every thread of the owner is busy
        with dist_autograd.context():
            with contextlib.suppress(RuntimeError):  # as it should
                rpc.rpc_sync("w2", double, args=(x, rref), timeout=1)
        time.sleep(8)
        left = rpc.rpc_sync("w2", contexts)
        print(
            "OK" if left == 0 else "BUG", left, "contexts on w2, 8 s after the release", flush=True
        )
        os._exit(0)
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    group = mp.start_processes(work, (init,), 3, join=False, start_method="fork")
    group.processes[0].join()
    group.join(0)  # shows the error, if there was one
    for process in group.processes:
        process.kill()
