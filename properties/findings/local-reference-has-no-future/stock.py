import os
import tempfile

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        rpc.RRef(7)._get_future()
        os._exit(0)
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    group = mp.start_processes(work, (init,), 2, join=False, start_method="fork")
    group.processes[0].join()
    code = group.processes[0].exitcode
    print("BUG" if code < 0 else "OK", f"the process of w0 ended with code {code}", flush=True)
    for process in group.processes:
        process.kill()
