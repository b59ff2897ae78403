import os
import tempfile
import threading

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


@rpc.functions.async_execution
def fail_later():
    future = torch.futures.Future()
    threading.Timer(0.5, future.set_exception, (ValueError("no"),)).start()
    return future


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        try:
            value = rpc.rpc_sync("w1", fail_later)
            print(f"BUG rpc_sync returned {value!r}", flush=True)
        except ValueError as error:
            print("OK rpc_sync raised", type(error).__name__, flush=True)
        os._exit(0)
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    group = mp.start_processes(work, (init,), 2, join=False, start_method="fork")
    group.processes[0].join()
    group.join(0)  # shows the error, if there was one
    for process in group.processes:
        process.kill()
