import tempfile

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


@rpc.functions.async_execution
def fail():
    future = torch.futures.Future()
    future.set_exception(ValueError("no"))
    return future


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    try:
        outcome = "returned", rpc.rpc_sync("w1", fail) if rank == 0 else None
    except ValueError as error:
        outcome = "raised", error
    rpc.shutdown()
    assert rank or outcome[0] == "raised", outcome


if __name__ == "__main__":
    mp.start_processes(work, (f"file://{tempfile.mktemp()}",), 2, start_method="fork")
