import os
import tempfile
import threading

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def refuse():
    raise ValueError("cannot be read")


class Unreadable:
    def __reduce__(self):
        return refuse, ()


def ended(line):
    print(line, flush=True)
    os._exit(0)


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init, rpc_timeout=5)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        rref = rpc.remote("w1", len, args=(Unreadable(),))
        future = rref._get_future()
        threading.Timer(
            20, ended, ("BUG _get_future().wait() has not ended after 20 s; the limit is 5",)
        ).start()
        try:
            future.wait()
        except Exception as error:
            ended("OK _get_future().wait() raised " + type(error).__name__)
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    group = mp.start_processes(work, (init,), 2, join=False, start_method="fork")
    group.processes[0].join()
    group.join(0)  # shows the error, if there was one
    for process in group.processes:
        process.kill()
