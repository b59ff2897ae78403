"""Operations that nobody takes part in, and a member that ends."""

import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist

RANK = int(os.environ["RANK"])
LIMIT = timedelta(seconds=2)


def attempt(what, function):
    try:
        print(RANK, what, "ended:", function())
    except RuntimeError as error:
        text = str(error).splitlines()[0]
        # gloo says first where in its source it is
        text = text.rpartition("] ")[2] if text.startswith("[/") else text
        print(RANK, what, f"{type(error).__name__}:", text)


def group():
    return dist.new_group([0, 1], timeout=LIMIT)


def main():
    dist.init_process_group("gloo")
    for what, function in (
        ("all_reduce", lambda own: dist.all_reduce(torch.ones(2), group=own)),
        ("recv", lambda own: dist.recv(torch.ones(2), 1, group=own)),
        ("send", lambda own: dist.send(torch.ones(2), 1, group=own)),
        ("broadcast", lambda own: dist.broadcast(torch.ones(2), 0, group=own)),
        ("monitored_barrier", lambda own: dist.monitored_barrier(own, timeout=LIMIT)),
        (
            "wait",
            lambda own: dist.all_reduce(torch.ones(2), group=own, async_op=True).wait(
                timedelta(seconds=0.2)
            ),
        ),
    ):
        own = group()
        begun_s = time.time()
        if RANK == 0:
            attempt(what, lambda: function(own))  # noqa: B023
        time.sleep(begun_s + 2.5 - time.time())  # longer than the limit
    own = group()
    attempt("both send first", lambda: dist.send(torch.ones(2), 1 - RANK, group=own))
    store = dist.TCPStore("127.0.0.1", 29517, 2, RANK == 0)
    store.set(f"key{RANK}", f"value {RANK}")
    print(RANK, "store", store.get(f"key{1 - RANK}"), store.add("sum", 0))
    own = group()
    if RANK == 1:
        print(1, "ends")
        return
    try:
        dist.all_reduce(torch.ones(2), group=own)
    except RuntimeError as error:  # gloo has two texts for it, which both speak of the peer
        print(0, "after its end: RuntimeError", "by peer" in str(error))


if __name__ == "__main__":
    main()
