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
    x, gradient = torch.ones(1, requires_grad=True), None
    with dist_autograd.context() as context_id:
        y = rpc.remote("w1", Net).rpc_async().double(x).wait()
        dist_autograd.backward(context_id, [y.sum()])
        gradient = dist_autograd.get_gradients(context_id).get(x)
    rpc.shutdown()
    assert gradient is not None and gradient.item() == 2, gradient


if __name__ == "__main__":
    mp.start_processes(work, (f"file://{tempfile.mktemp()}",), 2, start_method="fork")
