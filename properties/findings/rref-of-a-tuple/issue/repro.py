import tempfile

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def make():
    return rpc.RRef((torch.ones(1), torch.ones(1)))


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    try:
        outcome = None if rank else len(rpc.rpc_sync("w1", make).to_here())
    except RuntimeError as error:
        outcome = str(error)
    rpc.shutdown(graceful=outcome is None or outcome == 2)
    assert rank or outcome == 2, outcome


if __name__ == "__main__":
    mp.start_processes(work, (f"file://{tempfile.mktemp()}",), 2, start_method="fork")
