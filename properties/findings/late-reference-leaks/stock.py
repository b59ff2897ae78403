import os
import tempfile
import time

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def counts():
    info = rpc._rref_context_get_debug_info()
    return {name: info[name] for name in ("num_owner_rrefs", "num_forks")}


def slow():
    time.sleep(3)
    return rpc.RRef(torch.ones(1))


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        try:
            rpc.rpc_sync("w1", slow, timeout=1)
        except RuntimeError:
            time.sleep(4)
        left = rpc.rpc_sync("w1", counts)
        print(
            "BUG" if left["num_owner_rrefs"] != "0" else "OK",
            "left at the owner:",
            left,
            flush=True,
        )
        os._exit(0)
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    group = mp.start_processes(work, (init,), 2, join=False, start_method="fork")
    group.processes[0].join()
    group.join(0)  # shows the error, if there was one
    for process in group.processes:
        process.kill()
