# run: --workers 2
# engines: port torch
# shows: RPC ran for more than set timeout
# fix:             return rpc.rpc_sync(other =>         return rpc.rpc_sync(other
"""Two branches lock their own ledger and book at the other one, in calls that have the time limit of every call."""

import os
import threading

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


class Branch:
    def __init__(self, name):
        self.name = name
        self.mutex = threading.Lock()
        self.money = 100

    def deposit(self, amount):
        with self.mutex:  # <- second
            self.money += amount
            return self.money

    def pay(self, other, amount):
        with self.mutex:  # <- first
            self.money -= amount
            return rpc.rpc_sync(other, deposit, args=(amount,))


branch = None


def deposit(amount):
    return branch.deposit(amount)


def run(rank, world):
    global branch
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "29519"
    branch = Branch(f"branch{rank}")
    rpc.init_rpc(branch.name, rank=rank, world_size=world)
    other = f"branch{(rank + 1) % world}"
    for amount in (5, 7):
        branch.pay(other, amount)
    rpc.shutdown()
    assert branch.money == 100, branch.money


if __name__ == "__main__":
    mp.spawn(run, args=(2,), nprocs=2)
