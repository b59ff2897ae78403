import os
import tempfile

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        rref = rpc.remote("w1", torch.max, args=(torch.eye(2), 0))
        try:
            report(False, f"values {rref.to_here(timeout=10)[0].tolist()}")
        except RuntimeError as error:
            late = "ran for more than set timeout" in str(error)
            report(late, f"to_here(timeout=10): {str(error).splitlines()[0][:60]}")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
