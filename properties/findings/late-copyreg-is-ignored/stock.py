import copyreg
import os
import tempfile
import threading

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


class Guarded:
    def __init__(self):
        self.lock = threading.Lock()


def reduce(_):
    return Guarded, ()


copyreg.pickle(Guarded, reduce)


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        try:
            report(False, f"it arrived: {rpc.rpc_sync('w1', len, args=([Guarded()],))}")
        except TypeError as error:
            report(True, f"pickle can, rpc_sync: {error}")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
