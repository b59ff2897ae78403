# run: --workers 2
# engines: port torch
# shows: RuntimeError: (the connection to worker 0|worker 0 is not connected|.*closed|.*shut)
# fix: rpc.shutdown(graceful=False) => rpc.shutdown()
"""A server serves until a client says that it is done; then it leaves without waiting for others."""

import os
import threading

import torch
import torch.distributed.rpc as rpc

over = threading.Event()


def serve(x):
    return x.cumsum(0)


def done(client):
    print(client, "is done")
    over.set()  # <- first


def client():
    last = None
    for n in range(3):
        last = rpc.rpc_async("server", serve, args=(torch.arange(float(n + 2)),))
    rpc.rpc_sync("server", done, args=("client",))
    print(last.wait().tolist())
    total = rpc.rpc_sync("server", serve, args=(torch.ones(2),))  # <- second
    assert total.tolist() == [1, 2]


if __name__ == "__main__":
    rank = int(os.environ["RANK"])
    rpc.init_rpc("server" if rank == 0 else "client", rank=rank, world_size=2)
    if rank == 0:
        over.wait()
        rpc.shutdown(graceful=False)
    else:
        client()
        rpc.shutdown()
