import os
import tempfile

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        a = torch.ones(2, requires_grad=True)
        z = torch.ones(2, dtype=torch.cfloat, requires_grad=True)
        factor = torch.tensor([1 + 2j, 3 + 4j])
        with dist_autograd.context() as context_id:
            total = rpc.rpc_sync("w1", torch.add, args=(a, z))
            dist_autograd.backward(context_id, [(total * factor).real.sum()])
            gradient = dist_autograd.get_gradients(context_id)[z].tolist()
        verdict = "OK" if gradient == [1 - 2j, 3 - 4j] else "BUG"
        print(f"{verdict} z has the gradient {gradient}, [1-2j, 3-4j] is right", flush=True)
        os._exit(0)
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    group = mp.start_processes(work, (init,), 2, join=False, start_method="fork")
    group.processes[0].join()
    group.join(0)  # shows the error, if there was one
    for process in group.processes:
        process.kill()
