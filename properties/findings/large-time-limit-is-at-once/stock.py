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
        said = []
        for limit in (float("inf"), 3e6):
            try:
                said.append(str(rpc.rpc_sync("w1", max, args=([1, 2],), timeout=limit)))
            except RuntimeError as error:
                said.append(str(error)[:64])
        report("2" not in said, f"timeout=inf: {said[0]}; timeout=3e6: {said[1]}")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
