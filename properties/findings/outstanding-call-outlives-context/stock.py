import contextlib
import os
import tempfile
import time

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def fail_after(seconds):
    time.sleep(seconds)
    raise ValueError("no")


def hooked(x, seconds):
    y = 2 * x
    y.register_hook(lambda _: fail_after(seconds))
    return y


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=3, rpc_backend_options=options)
    if rank == 0:
        x = torch.ones(1, requires_grad=True)
        with contextlib.suppress(RuntimeError), dist_autograd.context() as context_id:
            y, z = (rpc.rpc_sync(f"w{n}", hooked, args=(x, 3 * (2 - n))) for n in (1, 2))
            dist_autograd.backward(context_id, [(y + z).sum()])
        del x, y, z
        time.sleep(6)
        agent = rpc.api._get_current_rpc_agent()
        left = int(agent.get_metrics()["agent.client_active_calls"])
        print("BUG" if left else "OK", left, "calls of w0 are counted, all answered", flush=True)
        os._exit(0)
    rpc.shutdown()


if __name__ == "__main__":
    # glibc overwrites memory that is freed.
    os.environ["GLIBC_TUNABLES"] = "glibc.malloc.perturb=165:glibc.malloc.tcache_count=0"
    group = mp.spawn(work, (f"file://{tempfile.mktemp()}",), 3, join=False)
    group.processes[0].join()
    for process in group.processes:
        process.kill()
