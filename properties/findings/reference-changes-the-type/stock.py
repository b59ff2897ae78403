import enum
import os
import tempfile

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


class Color(enum.IntEnum):
    RED = 1


VALUES = [torch.float32, torch.strided, b"a", Color.RED, torch.Size([1])]


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        changed = []
        for value in VALUES[:4]:
            got = rpc.RRef(value).local_value()
            if type(got) is not type(value):
                changed.append(f"{value!r} became {got!r}")
        report(changed, "; ".join(changed) or "each value is what it was")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
