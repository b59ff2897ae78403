import tempfile

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.nn import RemoteModule


def is_training(module_rref):
    return module_rref.local_value().training


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        remote = RemoteModule("w1/cpu", nn.Dropout)
        returned = remote.train(False)
        training = rpc.rpc_sync("w1", is_training, args=(remote.get_module_rref(),))
    rpc.shutdown()
    assert rank or (training is False and returned is remote), (training, returned)


if __name__ == "__main__":
    mp.start_processes(work, (f"file://{tempfile.mktemp()}",), 2, start_method="fork")
