import gc
import os
import tempfile
import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


class Service:
    def fail(self):
        raise ValueError("planted")


def owned():
    from torch._C._distributed_rpc import _rref_context_get_debug_info

    return int(_rref_context_get_debug_info()["num_owner_rrefs"])


def use():
    """A call through a reference fails; the reference is of no use afterwards."""
    rref = rpc.remote("w1", Service)
    try:
        rref.rpc_async().fail().wait()
    except ValueError:
        return
    raise AssertionError("the call did not fail")


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        for _ in range(5):
            use()
        gc.collect()
        ends = time.monotonic() + 5
        while (left := rpc.rpc_sync("w1", owned)) and time.monotonic() < ends:
            time.sleep(0.1)
        report(left > 0, f"{left} of 5 references that nobody has are still at their owner")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
