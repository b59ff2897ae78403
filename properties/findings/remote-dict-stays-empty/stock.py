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
        reference = rpc.remote("w1", dict)
        reference.rpc_sync().update(a=1)
        now = reference.to_here()
        report(now != {"a": 1}, f"rpc.remote(to, dict) is {now} after update(a=1)")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
