import os
import tempfile

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


class Lock:
    def acquire(self, timeout):
        return timeout


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        reference = rpc.remote("w1", Lock)
        try:
            report(False, f"acquire(timeout=5) gave {reference.rpc_sync().acquire(timeout=5)}")
        except TypeError as error:
            report(True, f"TypeError: {error}")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
