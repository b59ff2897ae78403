import os
import tempfile

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch.autograd.profiler_legacy import profile


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init, num_worker_threads=4)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        seen = 0
        for _ in range(8):
            with profile() as profiled:
                rpc.rpc_sync("w1", torch.neg, args=(torch.ones(1),))
            seen += any(event.is_remote for event in profiled.function_events)
        report(seen < 8, f"of eight profiled calls {seen} showed what the callee ran")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
