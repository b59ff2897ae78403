import os
import tempfile

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


def no_file():
    raise FileNotFoundError("C:\\Users\\new is missing")


def no_size():
    raise ValueError("Größe")


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        said = []
        for function in (no_file, no_size):
            try:
                rpc.rpc_sync("w1", function)
            except Exception as error:
                lines = str(error).splitlines()
                said.append((type(error).__name__, lines[min(1, len(lines) - 1)]))
        bad = said[0][0] != "FileNotFoundError" or "Größe" not in said[1][1]
        report(bad, f"a FileNotFoundError arrives as {said[0][0]}; 'Größe' as {said[1][1]!r}")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
