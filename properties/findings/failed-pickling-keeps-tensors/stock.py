import contextlib
import gc
import os
import tempfile
import weakref

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
        tensor = torch.ones(1000)
        seen = weakref.ref(tensor)
        with contextlib.suppress(Exception):  # a lambda cannot be pickled
            rpc.rpc_sync("w1", len, args=([tensor, lambda: 0],))
        del tensor
        gc.collect()
        assert rpc.rpc_sync("w1", len, args=([],)) == 0
        report(
            seen() is not None, f"the tensor is {'there still' if seen() is not None else 'gone'}"
        )
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
