"""Collectives of scripts that go by the steps of algorithms: how long they take, and for whom."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from pathlib import Path

import pytest

from squall.model.events.run import Run
from squall.properties.support.scripts import script_scenario
from squall.real import tracing
from squall.sim.names import BackendName
from squall.sim.scenarios.engines import ENGINES

FOLDER = Path(__file__).parent / "what_if"
A, B, P = 5e-6, 25e9, 4
N = (1 << 20) / B
PART = (P - 1) / P * N
LINKS = "latency=5us,bandwidth=25e9"


def play(
    script: Path,
    *args: str,
    ranks: int = P,
    links: str = LINKS,
    algorithms: str = "",
    compute: str = "",
    backend: BackendName = "gloo",
) -> Run:
    """What becomes of a script on such links."""
    scenario = script_scenario(
        script, *args, workers=ranks, latency="0", check=False, engine="torch"
    )
    scenario = scenario.in_world(links=links, algorithms=algorithms)
    assert scenario.script is not None
    script_of = replace(scenario.script, compute=compute, backend=backend, replicas=False)
    printed = io.StringIO()
    run = ENGINES["torch"].run(replace(scenario, work=script_of), stdout=printed, stderr=printed)
    assert run.outcome == "ok", printed.getvalue()
    return run


def ends_s(run: Run, kind: str) -> dict[int, float]:
    """When the first operation of a kind was over, by rank."""
    found: dict[int, float] = {}
    for event in run.of(tracing.OPERATION_ENDED):
        time_s, rank, _, _, values = run.records[event]
        if values[2] == kind:
            found.setdefault(rank, time_s)
    return found


@pytest.mark.parametrize(
    ("collective", "expected_s"),
    [
        ("all_reduce", 2 * (P - 1) * A + 2 * PART),
        ("reduce", (P - 1) * A + PART + A + PART),
        ("broadcast", 2 * (A + N)),
        ("all_gather", (P - 1) * (A + N)),
        ("all_to_all", A + PART),
        ("gather", A + (P - 1) * N),
        ("scatter", A + (P - 1) * N),
        ("reduce_scatter", 2 * (P - 1) * A + 2 * PART),  # gloo's is an all_reduce
        ("barrier", 2 * A),
        ("send", A + N),
    ],
)
def test_a_collective_takes_what_its_algorithm_does(collective: str, expected_s: float) -> None:
    run = play(FOLDER / "collective.py", collective)
    assert max(ends_s(run, collective).values()) == pytest.approx(expected_s, rel=0.01)


@pytest.mark.parametrize(
    ("collective", "algorithm", "expected_s"),
    [
        ("all_reduce", "halving-doubling", 2 * math.log2(P) * A + 2 * PART),
        ("broadcast", "direct", A + (P - 1) * N),
        ("reduce", "tree", math.log2(P) * (A + N)),
        ("reduce_scatter", "ring", (P - 1) * A + PART),
    ],
)
def test_another_algorithm_can_be_chosen(
    collective: str, algorithm: str, expected_s: float
) -> None:
    run = play(FOLDER / "collective.py", collective, algorithms=f"{collective}={algorithm}")
    assert max(ends_s(run, collective).values()) == pytest.approx(expected_s, rel=0.01)


def test_a_run_is_the_same_each_time_and_that_without_costs_is_another_one() -> None:
    first, second = (play(FOLDER / "collective.py", "all_reduce") for _ in range(2))
    assert first.digest == second.digest
    assert first.process_groups.operations == second.process_groups.operations == P


STRAGGLER = """
import sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
if rank == int(sys.argv[1]):
    time.sleep(0.01)
dist.broadcast(torch.ones(1 << 18), 0)
"""


def test_a_late_member_of_a_tree_delays_whom_it_passes_data_to(tmp_path: Path) -> None:
    script = tmp_path / "straggler.py"
    script.write_text(STRAGGLER, encoding="utf-8")
    # 0 gives to 1 and then to 2, and 1 to 3: a sender waits until its receiver is there, too.
    late = {
        name: {
            rank for rank, end_s in ends_s(play(script, name), "broadcast").items() if end_s >= 0.01
        }
        for name in ("0", "1", "2", "3")
    }
    assert late == {"0": {0, 1, 2, 3}, "1": {0, 1, 3}, "2": {0, 2}, "3": {1, 3}}


def test_a_slow_link_delays_all_of_a_ring(tmp_path: Path) -> None:
    slow = play(FOLDER / "collective.py", "all_reduce", links=f"{LINKS};2-3:latency=1ms")
    assert min(ends_s(slow, "all_reduce").values()) == pytest.approx(2 * (P - 1) * 1e-3, rel=0.5)


LEAVES = """
import os, sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
if dist.get_rank() == 2:
    time.sleep(1)
    os._exit(3)
dist.all_reduce(torch.ones(4))
"""


def test_a_member_that_ends_before_its_part_ends_the_collective_of_the_others(
    tmp_path: Path,
) -> None:
    script = tmp_path / "leaves.py"
    script.write_text(LEAVES, encoding="utf-8")
    printed = io.StringIO()
    scenario = script_scenario(script, workers=4, latency="0", check=False, engine="torch")
    run = ENGINES["torch"].run(scenario.in_world(links=LINKS), stdout=printed, stderr=printed)
    assert run.outcome == "error" and run.ended_s == pytest.approx(1.0, rel=0.01)
    assert run.process_groups.stall is not None
    assert "waits for rank 2 to call `all_reduce`" in "".join(run.process_groups.stall.lines)


SENDS = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, x = dist.get_rank(), torch.ones(1 << 18)
if rank == 0:
    works = [dist.isend(x * each, 1, tag=each) for each in (1, 2, 3)]
    for work in works:
        work.wait()
else:
    for each in (1, 2, 3):
        dist.recv(x, tag=each)
        assert x[0] == each
"""


def test_messages_leave_a_port_one_after_the_other(tmp_path: Path) -> None:
    script = tmp_path / "sends.py"
    script.write_text(SENDS, encoding="utf-8")
    run = play(script, ranks=2)
    ended = [run.records[event][0] for event in run.of(tracing.OPERATION_ENDED)]
    assert sorted(set(ended)) == pytest.approx([A + N, A + 2 * N, A + 3 * N])
