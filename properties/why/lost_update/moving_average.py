# run: --workers 4
# engines: port torch
# shows: AssertionError: average of \[.*\], expected 3 replicas in it
# fix: average.rpc_sync().set(current + weight) => average.rpc_sync().add(weight)
"""Replicas add their weights to an average that lives in an object on worker 0."""

import sys
from dataclasses import dataclass, field

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


@dataclass
class Average:
    total: torch.Tensor = field(default_factory=lambda: torch.zeros(2))

    def get(self):
        return self.total

    def set(self, total):
        self.total = total

    def add(self, weight):
        self.total = self.total + weight


def contribute(average, rank):
    weight = torch.full((2,), 10.0 ** (rank - 1))
    current = average.rpc_sync().get()  # <- first
    average.rpc_sync().set(current + weight)  # <- second


def run(rank, world_size, port):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://localhost:{port}")
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size, rpc_backend_options=options)
    if rank == 0:
        average = rpc.RRef(Average())
        calls = [
            rpc.rpc_async(f"worker{n}", contribute, args=(average, n)) for n in range(1, world_size)
        ]
        for call in calls:
            call.wait()
        total = average.local_value().total.tolist()
        assert total == [111.0, 111.0], f"average of {total}, expected 3 replicas in it"
    rpc.shutdown()


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 29507
    mp.spawn(run, args=(4, port), nprocs=4)
