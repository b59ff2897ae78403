import contextlib
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
        text = "BUG shutdown() of the creator has not ended after 140 s; rpc_timeout is 5"
        threading.Timer(140, ended, (text,)).start()
        try:
            rref.to_here()
        except RuntimeError:  # as it should, though its text speaks of a timeout
            del rref
    with contextlib.suppress(RuntimeError):
        rpc.shutdown()
    if rank == 0:
        ended("OK shutdown() ended")


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    group = mp.start_processes(work, (init,), 2, join=False, start_method="fork")
    group.processes[0].join()
    group.join(0)  # shows the error, if there was one
    for process in group.processes:
        process.kill()
