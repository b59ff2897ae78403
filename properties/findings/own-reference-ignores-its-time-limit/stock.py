import os
import tempfile
import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


def slow():
    time.sleep(6)
    return 7


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        reference = rpc.remote("w0", slow)
        begin = time.monotonic()
        try:
            said = f"gave {reference.to_here(timeout=1)}"
        except RuntimeError:
            said = "raised"
        took = time.monotonic() - begin
        report(took > 4, f"to_here(timeout=1) {said} after {took:.0f} s")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
