"""What decided a failure: what is told beside the lines, which properties/why has programs for."""

from __future__ import annotations

from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

import squall
from squall.sim.library.why import Cause
from squall.sim.search.why.executed import Executed, Lines
from squall.sim.search.why.touched import both, touches
from squall.sim.search.why.values import shown

RACE = """
import os
import torch.distributed.rpc as rpc

seen = {"n": 0}


def read():
    return seen["n"]


def write(n):
    seen["n"] = n


rank = int(os.environ["RANK"])
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=3)
if rank:
    n = rpc.rpc_sync("worker0", read)
    rpc.rpc_sync("worker0", write, args=(n + 1,))
rpc.shutdown()
if rank == 0:
    assert seen["n"] == 2, seen
"""


@pytest.fixture(scope="module")
def race(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("race")
    script = folder / "race.py"
    script.write_text(RACE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SQUALL_STORE", str(folder / "store"))
        yield script


@pytest.fixture(scope="module")
def explained(race: Path) -> Cause:
    return why_of(race)


def why_of(script: Path, **options: float) -> Cause:
    found = squall.fuzz(script, workers=3, seeds=20, **options).finding  # type: ignore[arg-type]
    assert found is not None and found.why is not None
    return found.why


def test_the_order_the_values_and_a_run_that_passes_are_told(race: Path, explained: Cause) -> None:
    why = explained
    assert why.verdict == "order" and {place.line for place in why.places} == {9, 13, 19, 20}
    reads = {line.result for line in why.failing if line.what == "read()"}
    assert reads == {"0"}, "both have read the same"
    assert [line.result for line in why.passing if line.what == "read()"] == ["0", "1"]
    assert why.problems[0] in str(why) and why.said[0] in str(why)
    assert why.to_json()["places"][0]["file"] == str(race)


def test_the_same_failure_is_told_the_same_way(race: Path, explained: Cause) -> None:
    assert str(why_of(race)) == str(explained)


def test_both_runs_are_drawn_up_to_where_they_part_and_from_there(explained: Cause) -> None:
    (failing, passing), parted = explained.shown, explained.event
    assert failing.run.records[:parted] == passing.run.records[:parted]
    first, second = (failing.marks[event] for event in sorted(failing.marks))
    assert [passing.marks[event] for event in sorted(passing.marks)] == [second, first]
    assert first in " ".join(explained.said) and min(failing.marks) >= parted

    page = explained.timeline(plotly="cdn").html
    assert "race.py" in page and all(line in unescape(page) for line in explained.said)
    names = {trace.name for trace in explained.picture().data}
    assert {f"1: {first}", f"2: {second}"} <= names


MIXED = """
import os
import threading
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
sums = torch.ones(2), torch.full((2,), 5.0)


def first():
    dist.all_reduce(sums[0])


def second():
    dist.all_reduce(sums[1])


threads = [threading.Thread(target=each) for each in (first, second)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert sums[0].tolist() == [2, 2], sums[0]
"""


def test_collectives_that_do_not_go_together_are_told_by_their_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SQUALL_STORE", str(tmp_path / "store"))
    script = tmp_path / "mixed.py"
    script.write_text(MIXED)
    found = squall.fuzz(script, workers=2, seeds=60).finding
    assert found is not None and found.why is not None
    assert found.why.said[0].startswith("Collective 1 of the group is `all_reduce` at")
    assert {place.line for place in found.why.places} == {12, 16}


def test_the_end_of_the_time_leaves_what_is_known(race: Path) -> None:
    run = squall.fuzz(race, workers=3, seeds=20, shrink_s=0).finding
    assert run is not None and run.why is None
    why = squall.why(run.small, seconds=1e-3)
    assert (why.verdict, why.out_of_time) == ("unknown", True)


def test_a_run_that_passes_has_no_cause() -> None:
    with pytest.raises(ValueError, match="nothing is wrong"):
        squall.why(squall.run(lambda rank: rank, workers=2))


def of_function(text: str, tmp_path: Path, name: str) -> list[Executed]:
    """All lines of a module's function, as if they had been executed."""
    file = tmp_path / f"{name}.py"
    file.write_text(text)
    code = compile(text, str(file), "exec").co_consts[0]
    return [Executed(0, 0, code, line) for line in range(1, text.count("\n") + 1)]


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        ("return jobs[1]", "jobs[1] = 2", "jobs"),
        ("jobs.append(1)", "return len(jobs)", "jobs"),
        ("return x.total", "x.total = 1", "total"),
        ("return jobs[1]", "return jobs[2]", None),  # nobody changes it
        ("x = 1", "x = 2", None),  # a variable of each one's own
        ("jobs = [1]\n    jobs.append(2)", "jobs[1] = 2", None),
    ],
)
def test_what_both_touch_is_shared_and_changed(
    one: str, other: str, shared: str | None, tmp_path: Path
) -> None:
    seen = Lines(lambda: (0, 0))
    first = touches(of_function(f"def f(x):\n    {one}\n", tmp_path, "one"), seen)
    second = touches(of_function(f"def g(x):\n    {other}\n", tmp_path, "other"), seen)
    found = both(first, second, stores=False)
    assert (None if found is None else found.name) == shared


def test_values_are_short_and_run_nothing_of_the_users() -> None:
    class Loud:
        def __repr__(self) -> str:
            raise AssertionError("a value was asked for its text")

    assert shown([1, "a", Loud()]) == "[1, 'a', <Loud>]"
    assert len(shown(list(range(1000)))) < 80
