# run: --workers 3
# engines: port torch
# shows: AssertionError: best is 0.\d, expected 0.9
# fix: valid = rpc.rpc_sync("judge", check, args=(score,)) => valid = True
"""A leader keeps the best score; before it takes one it asks a judge whether the score is valid."""

import os
import threading

import torch.distributed.rpc as rpc

best = {"score": 0.0}
reports = threading.Semaphore(0)


def check(score):
    return 0 <= score <= 1


def report(score):
    if score > best["score"]:  # <- first
        valid = rpc.rpc_sync("judge", check, args=(score,))
        if valid:
            best["score"] = score  # <- second
    reports.release()


def judge():
    futures = [rpc.rpc_async("leader", report, args=(score,)) for score in (0.9, 0.5, 0.7)]
    for future in futures:
        future.wait()


if __name__ == "__main__":
    rank = int(os.environ["RANK"])
    name = ["leader", "judge", "scorer"][rank]
    rpc.init_rpc(name, rank=rank, world_size=int(os.environ["WORLD_SIZE"]))
    if name == "scorer":
        judge()
    if name == "leader":
        for _ in range(3):
            reports.acquire()
        assert best["score"] == 0.9, f"best is {best['score']}, expected 0.9"
    rpc.shutdown()
