import os
import tempfile
import threading
import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


def slow():
    time.sleep(2)
    return 7


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        late = "to_here() has not ended after 15 s, the time limit of the creation is 0.5"
        threading.Timer(15, report, (True, late)).start()
        reference = rpc.remote("w0", slow, timeout=0.5)
        try:
            report(False, f"to_here() gave {reference.to_here(timeout=5)}")
        except RuntimeError as error:
            report(False, f"to_here() raised {str(error)[:60]}")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
