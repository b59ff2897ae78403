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
        try:
            result = rpc.rpc_sync("w1", torch.max, args=(torch.eye(2),), kwargs={"dim": 0})
            report(False, f"values {result[0].tolist()}")
        except RuntimeError as error:
            report("INTERNAL ASSERT" in str(error), str(error).splitlines()[0][:70])
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
