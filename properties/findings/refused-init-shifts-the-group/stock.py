import os
import tempfile
import threading

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


def join(name, rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init, rpc_timeout=5)
    rpc.init_rpc(name, rank=rank, world_size=2, rpc_backend_options=options)


def work(rank, init):
    if rank == 0:
        try:
            join(5, rank, init)  # a name has to be a text
        except RuntimeError:
            threading.Timer(
                20, report, (True, "init_rpc has not ended after 20 s, its limit is 5")
            ).start()
    join(f"w{rank}", rank, init)
    if rank == 0:
        report(False, "both are in")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
