import tempfile
import time

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def give_back(ref):
    time.sleep(2)
    return ref


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        given = rpc.RRef(torch.ones(1))
        call = rpc.rpc_async("w1", give_back, args=(given,))
        time.sleep(0.5)  # the function has begun
    else:
        time.sleep(1)
    rpc.shutdown()
    if rank == 0:
        try:
            print("OK", call.wait(), flush=True)
        except RuntimeError as error:
            print("BUG", str(error).split("\n")[0], flush=True)


if __name__ == "__main__":
    mp.spawn(work, (f"file://{tempfile.mktemp()}",), 2)
