import os
import tempfile

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


def back():
    return rpc.rpc_sync("w0", max, args=([1, 2],))


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init, num_worker_threads=1, rpc_timeout=4)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        said = []
        for function, arguments in ((back, ()), (max, ([1, 2],))):
            try:
                said.append(f"gave {rpc.rpc_sync('w1', function, args=arguments)}")
            except RuntimeError as error:
                said.append("timed out" if "timeout" in str(error) else str(error))
        report(
            said[1] == "timed out", f"the nested call {said[0]}, another one 4 s later {said[1]}"
        )
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
