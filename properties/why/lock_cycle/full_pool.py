# run: --workers 2
# engines: port torch
# shows: (deadlock|hang):
# fix: num_worker_threads=2 => num_worker_threads=16
"""Trees of calls: each level asks the other worker for the level below it."""

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

DEPTH = 3


def total(level):
    if level == 0:
        return 1
    other = "right" if rpc.get_worker_info().name == "left" else "left"
    below = [rpc.rpc_async(other, total, args=(level - 1,), timeout=0) for _ in range(2)]
    return sum(call.wait() for call in below)  # <- at fault


def main(rank):
    options = rpc.TensorPipeRpcBackendOptions(
        init_method="tcp://localhost:29532", num_worker_threads=2, rpc_timeout=0
    )
    rpc.init_rpc(["left", "right"][rank], rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        calls = [rpc.rpc_async("right", total, args=(DEPTH,), timeout=0) for _ in range(2)]
        sums = [call.wait() for call in calls]
        assert sums == [2**DEPTH] * 2, sums
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(main, nprocs=2)
