import contextlib
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
        future = torch.futures.Future()
        future.set_result(7)
        with contextlib.suppress(RuntimeError):  # a future can be completed only once
            future.set_exception(ValueError("too late"))
        try:
            report(False, f"wait() gave {future.wait()}")
        except TypeError as error:
            report(True, f"wait() of a future with the value 7 raised TypeError: {error}")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
