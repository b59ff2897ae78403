import os
import tempfile
import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


def slow():
    time.sleep(3)
    return 7


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        try:
            report(
                True,
                f"rpc_sync(timeout=0.0005) gave {rpc.rpc_sync('w1', slow, timeout=0.0005)} after 3 s",
            )
        except RuntimeError as error:
            report(False, f"it raised {str(error)[:60]}")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
