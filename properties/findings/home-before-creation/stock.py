import os
import tempfile
import threading
import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def slow():
    time.sleep(2)
    return 7


class SlowToRead:
    def __reduce__(self):
        return slow, ()


def make():
    return rpc.remote("w0", max, args=(SlowToRead(), 1))


def ended(line):
    print(line, flush=True)
    os._exit(0)


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init, rpc_timeout=5)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        rref = rpc.rpc_sync("w1", make)
        rpc.rpc_sync("w0", len, args=([rref],))  # handed on within its owner
        threading.Timer(
            15, ended, ("BUG to_here() has not ended after 15 s; the limit is 5",)
        ).start()
        try:
            ended(f"OK to_here() gave {rref.to_here()}")
        except RuntimeError as error:
            ended(f"OK to_here() raised {error}")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    group = mp.start_processes(work, (init,), 2, join=False, start_method="fork")
    group.processes[0].join()
    group.join(0)  # shows the error, if there was one
    for process in group.processes:
        process.kill()
