import tempfile

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
import torch.nn.functional as F


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=1, rpc_backend_options=options)
    table = torch.ones(2, 2, requires_grad=True)
    with dist_autograd.context() as context_id:
        rows = F.embedding(torch.tensor([0]), table, sparse=True)
        dist_autograd.backward(context_id, [rows.sum()])
        dist_autograd.backward(context_id, [(10 * table).sum()])
        gradient = dist_autograd.get_gradients(context_id)[table].to_dense()
    rpc.shutdown()
    assert gradient.tolist() == [[11, 11], [10, 10]], gradient.tolist()


if __name__ == "__main__":
    mp.start_processes(work, (f"file://{tempfile.mktemp()}",), 1, start_method="fork")
