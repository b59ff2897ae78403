import os
import sys
import tempfile

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


def fail():
    module = sys.modules[__name__]
    module.OutOfStock = type("OutOfStock", (Exception,), {"__module__": __name__})
    raise module.OutOfStock("nothing left")


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        try:
            result = rpc.rpc_sync("w1", fail)
        except Exception as error:
            report(False, f"the call raised {type(error).__name__}")
        report(True, f"the call raised nothing, it returned {result!r:.60}")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
