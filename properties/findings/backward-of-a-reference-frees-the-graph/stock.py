import os
import tempfile

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        x = torch.ones(1, requires_grad=True)
        rref = rpc.RRef((x * x).sum())
        rref.backward(retain_graph=True)
        try:
            rref.backward(retain_graph=True)
            print("OK", x.grad.item(), "after two passes", flush=True)
        except RuntimeError as error:
            print("BUG the second pass raised:", str(error)[:46], flush=True)
        os._exit(0)
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    group = mp.start_processes(work, (init,), 2, join=False, start_method="fork")
    group.processes[0].join()
    group.join(0)  # shows the error, if there was one
    for process in group.processes:
        process.kill()
