import os
import tempfile

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


def look_up():
    return {}["key"]


def caught(call):
    try:
        call()
    except Exception as error:
        return type(error).__name__


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        sync = caught(lambda: rpc.rpc_sync("w1", look_up))
        here = caught(lambda: rpc.remote("w1", look_up).to_here())
        report(sync != "KeyError", f"a KeyError by rpc_sync: {sync}; by to_here(): {here}")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
