import contextlib
import os
import tempfile
import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


def slow():
    time.sleep(2)
    return [7]


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        reference = rpc.remote("w1", slow)
        with contextlib.suppress(RuntimeError):  # not there yet: in order
            reference.rpc_sync(timeout=0.5).copy()
        time.sleep(3)
        assert reference.to_here() == [7]
        try:
            report(False, f"the second call gave {reference.rpc_sync().copy()}")
        except RuntimeError as error:
            report(True, f"the second call, without limit, raised {str(error)[:62]}")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
