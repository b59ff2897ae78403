# run: --workers 2
# engines: port torch
# shows: (deadlock|hang):
# fix: with metrics_lock:\n        rpc.rpc_sync("client", log, args=(metrics,), timeout=0)\n        with model_lock: => with model_lock:\n        rpc.rpc_sync("client", log, args=(metrics,), timeout=0)\n        with metrics_lock:
"""A server with a lock for its model and one for its metrics, called by two threads of a client."""

import os
import threading

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

model_lock = threading.Lock()
metrics_lock = threading.Lock()
weights = torch.zeros(2)
metrics = {"updates": 0, "norm": 0.0}


def learning_rate(update):
    return 0.1 / (1 + update)


def log(metrics):
    print(metrics)


def update(gradient):
    with model_lock:
        lr = rpc.rpc_sync("client", learning_rate, args=(metrics["updates"],), timeout=0)
        weights.sub_(lr * gradient)
        with metrics_lock:  # <- first
            metrics["updates"] += 1


def report():
    with metrics_lock:
        rpc.rpc_sync("client", log, args=(metrics,), timeout=0)
        with model_lock:  # <- second
            metrics["norm"] = weights.norm().item()


def call_often(function, *args):
    for _ in range(5):
        rpc.rpc_sync("server", function, args=args, timeout=0)


def run(rank):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "29531"
    rpc.init_rpc("server" if rank == 0 else "client", rank=rank, world_size=2)
    if rank == 1:
        threads = [
            threading.Thread(target=call_often, args=(update, torch.ones(2))),
            threading.Thread(target=call_often, args=(report,)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, nprocs=2)
