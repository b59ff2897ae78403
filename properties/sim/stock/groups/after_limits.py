"""After a time limit: who has run into one has closed its connections, in that group and for good."""

import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist

RANK = int(os.environ["RANK"])
LIMIT = timedelta(seconds=2)
BEGUN_S = time.time()


def attempt(what, function):
    try:
        told = function()
    except RuntimeError as error:
        text = str(error)
        for known in ("Connection closed by peer", "Timed out", "Application timeout"):
            if known in text and not text.startswith("Rank"):
                text = known
        told = text.splitlines()[0]
    print(RANK, what, told)


def until(seconds):
    """Wait for that time since the last call."""
    global BEGUN_S
    BEGUN_S += seconds
    time.sleep(max(0.0, BEGUN_S - time.time()))


def reduced(group=None):
    values = torch.ones(2) * (RANK + 1)
    dist.all_reduce(values, group=group)
    return values.tolist()


def passed(src, dst, group):
    if src == RANK:
        return dist.send(torch.ones(1), dst, group=group)
    return dist.recv(torch.ones(1), src, group=group) if dst == RANK else None


def main():
    global BEGUN_S
    dist.init_process_group("gloo")
    groups = [dist.new_group([0, 1, 2], timeout=LIMIT) for _ in range(4)]
    dist.barrier()
    BEGUN_S = time.time()

    group = groups[0]
    until((0, 3, 0.7)[RANK])
    attempt("all_reduce, of which one is late:", lambda: reduced(group))
    until((4, 1, 3.3)[RANK])
    attempt("after it:", lambda: reduced(group))
    attempt("others after it:", lambda: passed(1, 2, group))
    until(1)

    group = groups[1]
    if RANK == 0:
        attempt("recv:", lambda: dist.recv(torch.ones(1), 1, group=group))
    until(3)
    attempt("send after it:", lambda: passed(0, 2, group))
    attempt("others after it:", lambda: passed(1, 2, group))
    until(1)

    group = groups[2]
    until((0, 2, 0.3)[RANK])
    barrier = lambda: dist.monitored_barrier(group, timeout=timedelta(seconds=1))  # noqa: E731
    if RANK != 1:
        attempt("monitored barrier:", barrier)
    until((4, 2, 3.7)[RANK])
    attempt("to it after it:", lambda: passed(1, 0, group))
    attempt("from it after it:", lambda: passed(0, 2, group))

    work = dist.all_reduce(torch.ones(2), group=groups[3], async_op=True) if RANK == 0 else None
    if work is not None:
        attempt("wait:", lambda: work.wait(timedelta(seconds=0.5)))
    until(1)
    if work is None:
        attempt("all_reduce after a wait with a limit:", lambda: reduced(groups[3]))
    attempt("after it:", lambda: reduced(groups[3]))
    attempt("in another group:", reduced)

    group = dist.new_group([0, 1], timeout=LIMIT)
    if RANK == 0:
        work = dist.irecv(torch.ones(1), 1, group=group)
        until(3)
        attempt("irecv, waited for later than its limit:", work.wait)
        work = dist.isend(torch.ones(1), 1, group=group)
        until(3)
        attempt("isend, waited for later than its limit:", work.wait)
        work = dist.irecv(torch.ones(1), 1, group=group)
        attempt("irecv with a limit of its own:", lambda: work.wait(timedelta(seconds=1)))
    until((2, 2, 8)[RANK])
    if RANK == 1:
        attempt("send:", lambda: passed(1, 0, group))
        until(3)
        attempt("recv:", lambda: passed(0, 1, group))
        until(3)

    group = dist.new_group([1, 2])
    if RANK == 1:
        dist.isend(torch.ones(1), 2, group=group)
        until(1)
        return
    until(2)
    if RANK == 2:
        attempt("a message of one that has ended:", lambda: passed(1, 2, group))


if __name__ == "__main__":
    main()
