# run: --workers 3
# engines: port torch
# shows: LookupError: no table 'first'
# fix: return job => return job, table
# fix: job = launch("first") => job, table = launch("first")
"""A job finds a table by its name, on the worker that keeps it as long as somebody refers to it."""

import os
import time
import weakref

import torch
import torch.distributed.rpc as rpc

tables = weakref.WeakValueDictionary()


class Table:
    def __init__(self, name):
        self.values = torch.ones(8)
        tables[name] = self


def total(name):
    if name not in tables:
        raise LookupError(f"no table {name!r}")
    return tables[name].values.sum()


def work(name):
    return rpc.rpc_sync("storage", total, args=(name,))


def launch(name):
    table = rpc.remote("storage", Table, args=(name,))  # <- at fault
    table.to_here()
    job = rpc.rpc_async("reader", work, args=(name,))
    time.sleep(0.1)
    return job


def main():
    rank = int(os.environ["RANK"])
    rpc.init_rpc(["driver", "storage", "reader"][rank], rank=rank, world_size=3)
    if rank == 0:
        job = launch("first")
        assert job.wait() == 8
    rpc.shutdown()


if __name__ == "__main__":
    main()
