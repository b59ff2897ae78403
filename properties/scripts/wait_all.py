"""Many calls at once, and the ways to wait for them."""

import os
import time

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch.distributed.rpc.api import _wait_all

counter = 0


def bump(by):
    global counter
    counter += by
    return counter


def slow_square(x, seconds):
    time.sleep(seconds)
    return x * x


def read_counter():
    return counter


def run(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ.setdefault("MASTER_PORT", "29505")
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=world_size)
    if rank == 0:
        others = [f"w{r}" for r in range(1, world_size)]
        with _wait_all():
            for name in others:
                for by in (1, 10, 100):
                    rpc.rpc_async(name, bump, args=(by,))
        print("counters", [rpc.rpc_sync(name, read_counter) for name in others], counter)

        log = []
        futs = [
            rpc.rpc_async(name, slow_square, args=(torch.tensor(i + 2.0), 0.02 * (i + 1)))
            for i, name in enumerate(others)
        ]
        chained = [f.then(lambda f: log.append(f.value().item())) for f in futs]
        values = torch.futures.wait_all(futs)
        torch.futures.collect_all(chained).wait()
        print("values", [v.item() for v in values], "log", sorted(log), futs[0].done())

        start = time.time()
        torch.futures.wait_all([rpc.rpc_async("w1", slow_square, args=(i, 0.3)) for i in range(5)])
        took = time.time() - start
        print("side by side", 0.29 < took < 1.4)

        doubled = futs[0].then(lambda f: f.wait() * 2).then(lambda f: f.wait() + 1).wait()
        print("then", doubled.item())
        failing = futs[0].then(lambda f: 1 / 0)
        try:
            failing.wait()
        except Exception as e:
            print("then raises", "ZeroDivisionError" in f"{type(e).__name__}: {e}")

        with dist_autograd.context() as context_id:
            t = torch.arange(4.0, requires_grad=True)
            futs = [rpc.rpc_async(name, torch.mul, args=(t, i)) for i, name in enumerate(others)]
            loss = torch.stack([f.wait() for f in futs]).sum()
            dist_autograd.backward(context_id, [loss])
            print("grad", dist_autograd.get_gradients(context_id)[t].tolist())
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=(4,), nprocs=4, join=True)
