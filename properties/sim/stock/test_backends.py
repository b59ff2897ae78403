"""Who waits for whom on each backend, on both engines: the rows of the table in docs/engines.md."""

from __future__ import annotations

import io
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from squall.model.events.run import Run
from squall.properties.support.commands import squall
from squall.properties.support.scripts import script_scenario
from squall.sim.names import BackendName, EngineName
from squall.sim.scenarios.engines import ENGINES

HEAD = """
import torch
import torch.distributed as dist
from torch.distributed import P2POp, irecv, isend

dist.init_process_group("gloo")
rank = dist.get_rank()
other, x, y = 1 - rank, torch.full((SIZE,), float(rank)), torch.zeros(SIZE)
"""
#: by row: what two ranks do, and with what outcome on gloo, on NCCL, and on MPI where messages are small and large
ROWS = {
    "each sends and then receives": (
        "dist.send(x, other)\ndist.recv(y, other)",
        ("deadlock", "deadlock", "ok", "deadlock"),
    ),
    "each begins to send and to receive": (
        "works = [isend(x, other), irecv(y, other)]\nfor work in works:\n    work.wait()",
        ("ok", "deadlock", "ok", "ok"),
    ),
    "each does both in a batch": (
        "both = [P2POp(isend, x, other), P2POp(irecv, y, other)]\n"
        "for work in dist.batch_isend_irecv(both):\n    work.wait()\n"
        "assert y[0] == other",
        ("ok", "ok", "ok", "ok"),
    ),
    "a batch before a collective, and after it": (
        "if rank == 1:\n    dist.barrier()\n"
        "batch = [P2POp(isend, x, other)] if rank == 0 else [P2POp(irecv, y, other)]\n"
        "works = dist.batch_isend_irecv(batch)\n"
        "if rank == 0:\n    dist.barrier()\n"
        "works[0].wait()",
        ("ok", "deadlock", "ok", "ok"),
    ),
    "a single message before a collective, and after it": (
        "if rank == 0:\n    work = isend(x, 1)\ndist.barrier()\n"
        "if rank == 1:\n    work = irecv(y, 0)\nwork.wait()",
        ("ok", "ok", "ok", "ok"),
    ),
    "tags that are received in another order": (
        "for tag in (1, 2):\n"
        "    dist.send(x + tag, 1, tag=tag) if rank == 0 else dist.recv(y, 0, tag=3 - tag)\n"
        "assert rank == 0 or y[0] == WANTED",
        ("deadlock", "ok", "ok", "deadlock"),
    ),
    "a receive from any rank": (
        "dist.send(x, 1) if rank == 0 else dist.recv(y)",
        ("ok", "error", "ok", "ok"),
    ),
}
#: backend, elements of a message, and which of two messages with tags 1 and 2 is received last
COLUMNS: list[tuple[BackendName, int, float]] = [
    ("gloo", 2, 1.0),
    ("nccl", 2, 2.0),
    ("mpi", 2, 1.0),
    ("mpi", 20_000, 1.0),
]


def run_on(
    backend: BackendName, engine: EngineName, folder: Path, source: str, size: int = 2
) -> Run:
    script = folder / "script.py"
    script.write_text(HEAD.replace("SIZE", str(size)) + textwrap.dedent(source), encoding="utf-8")
    scenario = script_scenario(script, workers=2, engine=engine)
    assert scenario.script is not None
    scenario = replace(scenario, work=replace(scenario.script, backend=backend))
    return ENGINES[engine].run(scenario, stdout=io.StringIO(), stderr=io.StringIO())


@pytest.mark.parametrize("row", ROWS)
def test_who_waits_for_whom(tmp_path: Path, row: str, engine: EngineName) -> None:
    source, expected = ROWS[row]
    found = []
    for backend, size, last in COLUMNS:
        run = run_on(backend, engine, tmp_path, source.replace("WANTED", str(last)), size)
        found.append("ok" if run.outcome == "not checked" else run.outcome)
    assert tuple(found) == expected


def test_the_watchdog_of_nccl_ends_what_waits_for_ten_minutes(
    tmp_path: Path, engine: EngineName
) -> None:
    run = run_on("nccl", engine, tmp_path, "dist.barrier() if rank == 0 else dist.recv(y, 0)")
    assert run.ended_s == pytest.approx(600, abs=1)
    (first, *_) = run.errors
    assert first.message.startswith(
        "Watchdog caught collective operation timeout: WorkNCCL(SeqNum="
    )


def test_what_is_behind_others_on_its_stream_waits_for_whom_they_wait(
    tmp_path: Path, engine: EngineName
) -> None:
    source = "works = [isend(x, other), irecv(y, other)]\nworks[1].wait()"
    run = run_on("nccl", engine, tmp_path, source)
    assert run.process_groups.stall is not None
    text = " ".join(run.process_groups.stall.lines)
    assert "rank 1 to receive with tag 0" in text
    assert "rank 0 to receive with tag 0" in text


def test_the_command_takes_a_backend(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        HEAD.replace("SIZE", "2")
        + ROWS["tags that are received in another order"][0].replace("WANTED", "2"),
        encoding="utf-8",
    )
    done = squall("run", str(script), "--workers", "2", "--backend", "nccl", "--allow-unchecked")
    assert done.returncode == 0
    done = squall("run", str(script), "--workers", "2", "--backend", "ucc")
    assert (done.returncode, "expected gloo or nccl or mpi" in done.stderr) == (2, True)
