import os
import tempfile
import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def join(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)


def make():
    return [7]


def owners():
    return int(rpc._rref_context_get_debug_info()["num_owner_rrefs"])


def work(rank, init):
    join(rank, init)
    rpc.shutdown()
    join(rank, init + "-again")
    if rank == 0:
        for _ in range(3):
            assert rpc.remote("w1", make).to_here() == [7]
        time.sleep(2)  # the references are gone, and deletes are sent at once
        left = rpc.rpc_sync("w1", owners)
        print("BUG" if left else "OK", left, "of 3 values are left on w1", flush=True)
        os._exit(0)
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
