import os
import tempfile

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def make():
    return rpc.RRef((torch.ones(1), torch.ones(1)))


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        try:
            pair = rpc.rpc_sync("w1", make, timeout=20)
            print("OK", len(pair.to_here()), "tensors arrived", flush=True)
        except Exception as error:
            print(f"BUG {type(error).__name__}: {str(error).splitlines()[0][:90]}", flush=True)
        os._exit(0)
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    group = mp.start_processes(work, (init,), 2, join=False, start_method="fork")
    group.processes[0].join()
    group.join(0)  # shows the error, if there was one
    for process in group.processes:
        process.kill()
