import os
import tempfile

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
import torch.nn.functional as F


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        table = torch.ones(2, 2, requires_grad=True)
        with dist_autograd.context() as context_id:
            rows = F.embedding(torch.tensor([0]), table, sparse=True)
            dist_autograd.backward(context_id, [rows.sum()])
            dist_autograd.backward(context_id, [(10 * table).sum()])
            gradient = dist_autograd.get_gradients(context_id)[table].to_dense().tolist()
        verdict = "OK" if gradient == [[11, 11], [10, 10]] else "BUG"
        print(f"{verdict} after both passes {gradient}, [[11, 11], [10, 10]] is right", flush=True)
        os._exit(0)
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    group = mp.start_processes(work, (init,), 2, join=False, start_method="fork")
    group.processes[0].join()
    group.join(0)  # shows the error, if there was one
    for process in group.processes:
        process.kill()
