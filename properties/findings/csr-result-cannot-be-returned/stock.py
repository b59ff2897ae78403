import os
import tempfile

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def rows(matrix):
    return len(matrix)


def same(matrix):
    return matrix


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        matrix = torch.eye(2).to_sparse_csr()
        assert rpc.rpc_sync("w1", rows, args=(matrix,)) == 2  # it can be sent
        try:
            back = rpc.rpc_sync("w1", same, args=(matrix,))
            print("OK", back.layout, "came back", flush=True)
        except RuntimeError as error:
            print("BUG returned, it raises:", str(error).splitlines()[0], flush=True)
        os._exit(0)
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    group = mp.start_processes(work, (init,), 2, join=False, start_method="fork")
    group.processes[0].join()
    group.join(0)  # shows the error, if there was one
    for process in group.processes:
        process.kill()
