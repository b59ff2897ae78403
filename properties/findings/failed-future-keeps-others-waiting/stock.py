import os
import tempfile
import threading

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
        late = "wait_all has not ended after 10 s"
        threading.Timer(10, report, (True, late)).start()
        failed, never = torch.futures.Future(), torch.futures.Future()
        failed.set_exception(ValueError("failed"))
        try:
            torch.futures.wait_all([failed, never])
        except ValueError as error:
            report(False, f"wait_all raised ValueError: {error}")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
