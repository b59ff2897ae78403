import os
import tempfile

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


class Net:
    def double(self, x):
        return 2 * x


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        x = torch.ones(1, requires_grad=True)
        net = rpc.remote("w1", Net)
        with dist_autograd.context() as context_id:
            y = net.rpc_async().double(x).wait()
            dist_autograd.backward(context_id, [y.sum()])
            gradient = dist_autograd.get_gradients(context_id).get(x)
        verdict = "OK" if gradient is not None and gradient.item() == 2 else "BUG"
        print(f"{verdict} x of 2 * x has the gradient {gradient}, 2 is right", flush=True)
        os._exit(0)
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    group = mp.start_processes(work, (init,), 2, join=False, start_method="fork")
    group.processes[0].join()
    group.join(0)  # shows the error, if there was one
    for process in group.processes:
        process.kill()
