import os
import tempfile
import threading

import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        context = dist_autograd.context()
        context.__enter__()
        thread = threading.Thread(target=context.__exit__, args=(None, None, None))
        thread.start()
        thread.join()
        try:
            with dist_autograd.context():
                report(False, "a new context can be made")
        except RuntimeError as error:
            report(True, f"after the context was left: {error}")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
