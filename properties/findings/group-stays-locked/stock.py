import os
import tempfile
import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def join(name, rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init, rpc_timeout=8)
    rpc.init_rpc(name, rank=rank, rpc_backend_options=options)


def work(rank, init):
    time.sleep(4 * rank)
    try:
        join(f"w{rank}", 0 if rank == 1 else rank, init)
        said = "is in"
    except RuntimeError as error:
        said = f"was refused: {str(error).splitlines()[0][:60]}"
    if rank == 1:
        assert "not unique" in said
    if rank == 2:
        print("OK" if said == "is in" else "BUG", "a third worker", said, flush=True)
        os._exit(0)
    time.sleep(60)


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 3, join=False, daemon=True).processes[2].join()
