# run: --workers 3 --faults lost_replies.json
# engines: port torch
# shows: AssertionError: balance is -?\d+, expected 60
# fix: balance += amount => balance += amount if receipt not in paid else 0
"""Clients pay into an account; a callback sends a payment that failed again."""

import os
import threading

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

balance = 0
paid = set()
lock = threading.Lock()


def pay(receipt, amount):
    global balance
    with lock:
        balance += amount  # <- at fault
        paid.add(receipt)
    return receipt


def send(receipt, amount, done):
    def again(future):
        try:
            done.set_result(future.value())
        except RuntimeError:
            send(receipt, amount, done)

    call = rpc.rpc_async("bank", pay, args=(receipt, amount), timeout=1)
    call.add_done_callback(again)
    return done


def main(rank, names):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "29522"
    rpc.init_rpc(names[rank], rank=rank, world_size=len(names))
    if rank:
        payments = [send(f"{rank}/{n}", 10, torch.futures.Future()) for n in range(3)]
        torch.futures.wait_all(payments)
    rpc.shutdown()
    if rank == 0:
        assert balance == 60, f"balance is {balance}, expected 60"


if __name__ == "__main__":
    mp.spawn(main, args=(["bank", "anna", "bert"],), nprocs=3)
