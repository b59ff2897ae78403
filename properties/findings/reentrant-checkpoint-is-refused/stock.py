import os
import tempfile

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch.utils.checkpoint import checkpoint


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        x = torch.ones(1, requires_grad=True)
        with dist_autograd.context() as context_id:
            y = checkpoint(
                torch.exp, rpc.rpc_sync("w1", torch.mul, args=(x, 2)), use_reentrant=True
            )
            try:
                dist_autograd.backward(context_id, [y.sum()])
                print("OK", dist_autograd.get_gradients(context_id), flush=True)
            except RuntimeError as error:
                print("BUG", str(error)[:150], flush=True)
        os._exit(0)
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    group = mp.start_processes(work, (init,), 2, join=False, start_method="fork")
    group.processes[0].join()
    group.join(0)  # shows the error, if there was one
    for process in group.processes:
        process.kill()
