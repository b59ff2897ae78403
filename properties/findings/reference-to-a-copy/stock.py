import os
import tempfile

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


def append(reference):
    reference.local_value().append(2)


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        numbers, mixed = rpc.RRef([1]), rpc.RRef([1, "a"])
        rpc.rpc_sync("w0", append, args=(numbers,))
        rpc.rpc_sync("w0", append, args=(mixed,))
        now = numbers.local_value(), mixed.local_value()
        report(now[0] != [1, 2], f"after append(2) to each: {now[0]} and {now[1]}")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
