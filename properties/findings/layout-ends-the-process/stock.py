import os
import tempfile

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
        try:
            rpc.rpc_sync("w1", len, args=([nested],))
        except Exception as error:
            report(False, f"the call raised {type(error).__name__}")
        report(False, "the tensor arrived")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    first = mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0]
    first.join()
    if first.exitcode < 0:
        print(f"BUG the process of w0 died by signal {-first.exitcode}")
