import os
import tempfile

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        refused = []
        for function, args in ((torch.ones, (2, 3)), (torch.einsum, ("ij->i", torch.ones(2, 3)))):
            function(*args)  # fine here
            try:
                rpc.rpc_sync("w1", function, args=args)
            except RuntimeError as error:
                refused.append(f"{function.__name__}: {str(error)[:58]}")
        print("BUG" if refused else "OK", "; ".join(refused), flush=True)
        os._exit(0)
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    group = mp.start_processes(work, (init,), 2, join=False, start_method="fork")
    group.processes[0].join()
    group.join(0)  # shows the error, if there was one
    for process in group.processes:
        process.kill()
