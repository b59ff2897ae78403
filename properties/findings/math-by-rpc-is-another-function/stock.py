import math
import os
import tempfile

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        here, there = math.factorial(25), rpc.rpc_sync("w1", math.factorial, args=(25,))
        root = rpc.rpc_sync("w1", math.sqrt, args=(-1,))
        report(here != there, f"math.factorial(25) by RPC is {there}, math.sqrt(-1) {root}")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
