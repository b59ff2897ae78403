"""Passes from a ThreadPoolExecutor, and what else a script does with threads."""

import concurrent.futures
import os
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.l = torch.nn.Linear(3, 3).double()
        self.calls = 0
        self.cond = threading.Condition()

    def forward(self, x):
        with self.cond:
            self.calls += 1
            self.cond.notify_all()
        return torch.tanh(self.l(x))

    def wait_calls(self, n):
        with self.cond:
            ok = self.cond.wait_for(lambda: self.calls >= n, timeout=30)
        return ok, self.calls

    def grads(self, cid):
        return {n: dist_autograd.get_gradients(cid)[p] for n, p in self.l.named_parameters()}


def job(i, m):
    x = (torch.arange(3.0, dtype=torch.float64) + i).requires_grad_()
    with dist_autograd.context() as cid:
        y = m.rpc_sync().forward(x)
        z = m.rpc_sync().forward(y)
        dist_autograd.backward(cid, [z.sum() + (x * x).sum()])
        return i, dist_autograd.get_gradients(cid)[x], m.rpc_sync().grads(cid)["bias"]


def run(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ.setdefault("MASTER_PORT", "29500")
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=world_size)
    if rank == 0:
        m = rpc.remote("w1", Model)
        waiter = m.rpc_async().wait_calls(24)
        with ThreadPoolExecutor(max_workers=4, thread_name_prefix="job") as ex:
            futs = {ex.submit(job, i, m): i for i in range(12)}
            res = sorted((f.result() for f in as_completed(futs)), key=lambda r: r[0])
        for i, g, b in res:
            print(i, [round(v, 6) for v in g.tolist()], [round(v, 6) for v in b.tolist()])
        print(waiter.wait())
        with ThreadPoolExecutor() as ex:
            print(
                list(
                    ex.map(
                        lambda i: rpc.rpc_sync("w1", torch.add, args=(torch.ones(1), i)).item(),
                        range(5),
                    )
                )
            )
        with concurrent.futures.ThreadPoolExecutor(2) as ex:
            done, pending = concurrent.futures.wait(
                [ex.submit(rpc.rpc_sync, "w1", max, (1, 2)) for _ in range(3)], timeout=20
            )
            print(len(done), len(pending), {d.result() for d in done})
        t = threading.Timer(0.01, lambda: print("timer"))
        t.start()
        t.join()
        sem = threading.Semaphore(2)
        bar = threading.Barrier(3)
        out = []

        def th(i):
            with sem:
                v = rpc.rpc_sync("w1", torch.mul, args=(torch.ones(1), i))
            bar.wait()
            out.append(v.item())

        ths = [threading.Thread(target=th, args=(i,)) for i in range(3)]
        [t.start() for t in ths]
        [t.join() for t in ths]
        print(sorted(out))
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=(2,), nprocs=2)
