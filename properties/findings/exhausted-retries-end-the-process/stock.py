import os
import tempfile

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch.distributed.rpc import _testing, backend_registry


def length(reference):
    return len(reference.to_here())


def work(rank, init):
    assert _testing.is_available()  # it has the backend that loses messages
    backend = backend_registry.BackendType["FAULTY_TENSORPIPE"]
    options = backend_registry.construct_rpc_backend_options(
        backend,
        init_method=init,
        num_worker_threads=8,
        messages_to_fail=["RREF_FORK_REQUEST"],
        messages_to_delay={},
        num_fail_sends=100,
    )
    rpc.init_rpc(f"w{rank}", backend=backend, rank=rank, world_size=3, rpc_backend_options=options)
    if rank == 0:
        reference = rpc.remote("w2", sorted, args=([2, 1],))
        try:
            print("OK", rpc.rpc_sync("w1", length, args=(reference,), timeout=30), flush=True)
        except RuntimeError:
            os._exit(0)
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    processes = mp.spawn(work, (init,), 3, join=False, daemon=True).processes
    processes[0].join()
    processes[1].join(5)
    code = processes[1].exitcode
    if code is None or code < 0:
        print(
            "OK the call failed, w1 goes on" if code is None else f"BUG w1 died by signal {-code}"
        )
