import os
import tempfile
import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


def slow():
    time.sleep(4)


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        first = rpc.remote("w1", slow, timeout=0.5)
        second = rpc.remote("w1", slow, timeout=0.5)
        time.sleep(2)
        said = []
        for reference in (first, second):
            try:
                said.append(f"gave {reference.to_here(timeout=10)}")
            except RuntimeError as error:
                said.append("timed out" if "timed out" in str(error) else str(error))
        report(said[1] != "timed out", f"first {said[0]}, second {said[1]}")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
