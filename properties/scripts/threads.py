"""A client with several threads, each with a context of its own, and a server with a lock."""

import os
import threading
from queue import Queue
from threading import Thread

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

lock = threading.Lock()
served = []
local = threading.local()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor([2.0, 3.0]))

    def forward(self, x, who):
        with lock:
            served.append(who)
        return (x * self.w).sum()

    def grad(self, context_id):
        return dist_autograd.get_gradients(context_id)[self.w]


def how_many():
    return len(served), sorted(served)


def client(net, i, results):
    local.i = i
    x = torch.tensor([1.0, 2.0]) * (i + 1)
    x.requires_grad_()
    for _ in range(3):
        with dist_autograd.context() as context_id:
            y = net.rpc_sync().forward(x, i)
            z = net.remote().forward(x * 2, i).to_here()
            dist_autograd.backward(context_id, [y, z])
            mine = dist_autograd.get_gradients(context_id)[x].tolist()
            theirs = net.rpc_sync().grad(context_id).tolist()
    assert local.i == i
    results.put((i, mine, theirs))


def run(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ.setdefault("MASTER_PORT", "29506")
    rpc.init_rpc(
        f"worker{rank}",
        rank=rank,
        world_size=world_size,
        rpc_backend_options=rpc.TensorPipeRpcBackendOptions(num_worker_threads=6),
    )
    if rank == 0:
        net = rpc.remote("worker1", Net)
        results = Queue()
        threads = [Thread(target=client, args=(net, i, results)) for i in range(5)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for line in sorted(results.get() for _ in threads):
            print(line)
        print(rpc.rpc_sync("worker1", how_many))
        event, seen = threading.Event(), []

        def waiter():
            seen.append(event.wait(timeout=30))

        thread = threading.Thread(target=waiter, daemon=True)
        thread.start()
        event.set()
        thread.join()
        print("event", seen, threading.current_thread().name)
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=(2,), nprocs=2, join=True)
