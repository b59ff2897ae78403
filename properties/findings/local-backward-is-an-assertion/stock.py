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
        x = torch.ones(1, requires_grad=True)
        with dist_autograd.context():
            loss = rpc.rpc_sync("w1", torch.mul, args=(x, 2)).sum()
            try:
                loss.backward()
                text = "the local pass ended"
            except RuntimeError as error:
                text = str(error).splitlines()[0]
        print("BUG" if "INTERNAL ASSERT" in text else "OK", text[:160], flush=True)
        os._exit(0)
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    group = mp.start_processes(work, (init,), 2, join=False, start_method="fork")
    group.processes[0].join()
    group.join(0)  # shows the error, if there was one
    for process in group.processes:
        process.kill()
