"""Stores of ``torch.distributed`` answer on either engine what those of stock PyTorch answer."""

from __future__ import annotations

import io
from pathlib import Path

import torch.distributed

import squall
from squall.properties.support.playing import write
from squall.properties.support.scripts import run_file
from squall.sim.names import EngineName

SCRIPT = """
    import datetime, os
    import torch.distributed as dist
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    tcp = dist.TCPStore("localhost", 29600, size, rank == 0)
    below = dist.PrefixStore("below", tcp)
    file = dist.FileStore("some file", size)

    def comes(error, call, *args):
        try:
            call(*args)
        except error as came:
            return str(came)

    for store in (tcp, below, file):
        store.append("all", "x")
        if store.add("came", 1) == size:
            store.set("there", "yes")
        store.wait(["there"])
        assert store.get("all") == size * b"x"
        another = store.clone()
        assert type(another) is type(store) and another.get("there") == b"yes"
        assert comes(TypeError, store.set, "number", 7) is not None
    assert tcp.libuvBackend and tcp.clone().port == tcp.port
    assert sorted(tcp.list_keys()) == ["all", "below/all", "below/came", "below/there", "came", "there"]
    assert sorted(below.list_keys()) == ["all", "came", "there"]
    assert (tcp.num_keys(), below.num_keys()) == (7, 7)
    assert (tcp.has_extended_api(), below.has_extended_api(), file.has_extended_api()) == (True, True, False)
    print(comes(dist.DistStoreError, tcp.wait, ["a", "b"], datetime.timedelta(milliseconds=20)))
    print(comes(dist.DistStoreError, below.wait, ["a"], datetime.timedelta(milliseconds=20)))
    print(comes(dist.QueueEmptyError, below.queue_pop, "a", False))
    print(comes(NotImplementedError, file.queue_push, "a", "b"))
"""


def test_stores_answer_as_those_of_stock_pytorch(tmp_path: Path, engine: EngineName) -> None:
    printed = io.StringIO()
    run = run_file(
        write(tmp_path, SCRIPT), workers=2, engine=engine, stdout=printed, stderr=printed
    )
    lines = printed.getvalue().splitlines()
    assert (run.errors, len(lines)) == ([], 8)
    assert sorted(lines)[::2] == [
        "queue is empty",
        "queue support is not implemented.",
        "wait timeout after 20ms, keys: /a, /b",
        "wait timeout after 20ms, keys: /below/a",
    ]


def test_who_explores_a_step_knows_that_a_store_is_touched() -> None:
    def step(rank: int) -> None:
        store = torch.distributed.FileStore("explored", 2)
        assert rank == 0 or not store.check(["key"])
        store.set("key", "value")

    found = squall.explore(step, workers=2, join="worker{rank}")
    assert not found.ok and "GrainError" in str(found.counterexamples)
