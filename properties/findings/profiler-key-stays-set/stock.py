import contextlib
import os
import tempfile

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch.autograd.profiler_legacy import profile


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        with profile():
            with contextlib.suppress(Exception):  # a lambda cannot be pickled
                rpc.rpc_sync("w1", len, args=([lambda: 0],))
            try:
                report(False, f"the next call gave {rpc.rpc_sync('w1', min, args=([3, 4],))}")
            except RuntimeError as error:
                report(True, f"the next call raised: {error}")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
