"""What is found is kept: whatever ends the process, each printed failure is in the store."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from squall.sim.scenario import Expected, Scenario
from squall.sim.scenarios import store as store_module
from squall.sim.scenarios.failure import Failure
from squall.sim.scenarios.file import dump_scenario, name_of
from squall.sim.scenarios.keeping import Keeper
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.scenarios.store import Store, StorePlace, explain, write_synced
from squall.sim.search.campaign import Campaign, run_campaign
from squall.sim.search.draw import draw
from squall.sim.search.judge import Verdict
from squall.sim.search.mutants.registry import MUTANTS

WRITERS = 4


def failing(seed: int, digest: str = "d") -> Scenario:
    expected = Expected(digest=digest, outcome="failed", property="rrefs", what="an owner was left")
    return replace(draw(seed), expected=expected)


@pytest.fixture
def place(tmp_path: Path) -> StorePlace:
    return StorePlace(tmp_path / "store")


def test_a_failure_is_a_scenario_and_who_found_it(place: StorePlace) -> None:
    scenario = replace(failing(7), seed=2**64 - 1)
    kept = Store(place).keep(scenario, found_by="fuzz", text="in full")
    again = Store(place).keep(scenario, found_by="somebody else")
    assert again == replace(kept, count=2), "it is known already"
    kept = again
    store = Store(place)
    (found,) = store.failures()
    assert found == kept
    assert found.scenario == scenario
    assert store.find(kept.name) == store.find(kept.name[:5]) == kept
    assert store.find("nope") is None
    assert (found.expected.property, found.text) == ("rrefs", "in full")
    assert found.failed and found.replay == f"squall replay {found.file}"


def test_a_failure_that_comes_out_otherwise_is_written_again(place: StorePlace) -> None:
    store = Store(place)
    store.keep(failing(7, "before"), found_by="fuzz")
    now = store.keep(failing(7, "now"), found_by="shrink")
    assert store.failures() == [now]
    assert now.scenario.expected.digest == "now"


def test_what_decided_a_failure_is_kept_with_it(place: StorePlace) -> None:
    store = Store(place)
    kept = store.keep(failing(7), found_by="fuzz")
    explain(kept, "`f` ran first.", {5: "`f` ran", 9: "`g` ran"})
    store.keep(failing(7), found_by="fuzz")
    found = store.kept(failing(7))
    assert found is not None
    assert (found.count, found.why, found.marks) == (
        2,
        "`f` ran first.",
        {5: "`f` ran", 9: "`g` ran"},
    )
    assert store.kept(failing(8)) is None
    other = store.keep(failing(7, "other"), found_by="fuzz")
    assert (other.why, other.marks) == ("", {}), "it is another failure"


def test_failures_are_in_the_order_in_which_they_were_found(place: StorePlace) -> None:
    kept = [Store(place).keep(failing(seed), found_by="fuzz") for seed in range(5)]
    assert Store(place).failures() == kept


def test_no_store_is_an_empty_one(tmp_path: Path) -> None:
    store = Store(StorePlace(tmp_path / "none"))
    assert store.failures() == store.runs() == []
    assert list(tmp_path.iterdir()) == []


def test_scenarios_are_listed_whoever_wrote_them(place: StorePlace) -> None:
    """The files are the store: there is no index that would have to agree with them."""
    kept = Store(place).keep(failing(1), found_by="fuzz", text="in full")
    copied = place.scenarios / "copied.json"
    copied.write_text(dump_scenario(failing(2)), encoding="utf-8")
    (place.failures / f"{kept.name}.json").write_text("{broken", encoding="utf-8")
    (place.scenarios / "broken.json").write_text("{", encoding="utf-8")
    found = {each.name: each for each in Store(place).failures()}
    assert set(found) == {kept.name, "copied"}
    assert found[kept.name] == replace(
        kept, found_by="", text="", found_at=found[kept.name].found_at
    )
    assert found["copied"].scenario == failing(2)
    assert Store(place).unreadable() == [place.scenarios / "broken.json"]


def test_a_folder_that_was_moved_names_its_own_files(place: StorePlace, tmp_path: Path) -> None:
    kept = Store(place).keep(failing(1), found_by="fuzz")
    moved = StorePlace(place.folder.rename(tmp_path / "elsewhere"))
    (found,) = Store(moved).failures()
    assert found == replace(kept, file=str(moved.scenarios / f"{kept.name}.json"))


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_synced(path, "one")
    with pytest.raises(UnicodeEncodeError):
        write_synced(path, "two \ud800")
    assert path.read_text(encoding="utf-8") == "one"
    assert list(tmp_path.iterdir()) == [path]


def test_a_store_that_cannot_be_used_does_not_end_a_campaign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    monkeypatch.setenv("SQUALL_STORE", str(tmp_path / "file"))
    told: list[str] = []
    keeper = Keeper(told.append)
    for _ in range(2):
        assert keeper.keep(failing(1), found_by="fuzz", text="") is None
    (line,) = told
    assert line.startswith("failures are not kept: ")


def forked(work: Callable[[int], object]) -> tuple[int, int]:
    """The process id of a copy of this process that does ``work``, and what it writes to."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            work(writing)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writing)
    return child, reading


def ended(child: int, reading: int) -> tuple[list[str], int]:
    """The whole lines that a copy has written, once it has ended, and how it did."""
    with os.fdopen(reading) as pipe:
        *lines, _ = pipe.read().split("\n")
    return lines, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_many_may_write_at_a_time(place: StorePlace) -> None:
    """All of them the same failures, and at once: each is there once, and whole."""
    scenarios = [failing(seed) for seed in range(6)]
    gate, opened = os.pipe()

    def write(out: int) -> None:
        os.close(opened)
        os.read(gate, 1)  # until all have started
        for scenario in scenarios:
            Store(place).keep(scenario, found_by="fuzz", text="in full")

    children = [forked(write) for _ in range(WRITERS)]
    os.close(opened)
    os.close(gate)
    assert [ended(*child) for child in children] == [([], 0)] * WRITERS
    found = Store(place).failures()
    assert {kept.name for kept in found} == {name_of(scenario) for scenario in scenarios}
    assert all(kept.text == "in full" for kept in found)
    files = {path.name for path in place.scenarios.iterdir()}
    assert files == {f"{name_of(scenario)}.json" for scenario in scenarios}
    for kept in found:
        assert name_of(kept.scenario) == kept.name


def killed_before(number: int, module: Any) -> None:
    """Kill this process before it executes so many lines of a module."""
    left = count(number, -1)

    def line(frame: FrameType, event: str, arg: object) -> Any:
        if event == "line" and next(left) == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return line

    def call(frame: FrameType, event: str, arg: object) -> Any:
        return line if frame.f_code.co_filename == module.__file__ else None

    sys.settrace(call)


def test_no_kill_loses_a_printed_failure(tmp_path: Path) -> None:
    """A process that keeps two failures is killed before each line of the store in turn: whatever
    it had printed is there, whole, and whatever is there can be read."""
    scenarios = [failing(seed) for seed in (1, 2)]
    at = (0, 0)
    for number in count():
        place = StorePlace(tmp_path / f"killed before {number}")

        def keep(out: int, place: StorePlace = place, number: int = number) -> None:
            killed_before(number, store_module)
            for scenario in scenarios:
                kept = Store(place).keep(scenario, found_by="fuzz", text="in full")
                os.write(out, f"{kept.name}\n".encode())
            sys.settrace(None)

        printed, code = ended(*forked(keep))
        found = {kept.name: kept for kept in Store(place).failures()}
        assert set(printed) <= set(found)
        for name in printed:
            assert found[name].text == "in full"
        for kept in found.values():
            assert kept.failed and name_of(kept.scenario) == kept.name
        assert at <= (len(printed), len(found))
        at = (len(printed), len(found))
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert at == (2, 2) and number > 50


def test_a_campaign_prints_what_it_has_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SQUALL_STORE", str(tmp_path / "store"))
    keeper = Keeper(pytest.fail)
    names: list[str] = []

    def show(verdict: Verdict, failure: Failure | None, campaign: Campaign) -> None:
        if failure is not None:
            kept = keeper.keep(failure.scenario, found_by="fuzz", text="")
            assert kept is not None
            assert json.loads(Path(kept.file).read_text(encoding="utf-8"))["seed"] == verdict.seed
            names.append(kept.name)

    with MUTANTS["release-only-here"].apply(), campaign_settings():
        run_campaign(range(100), on_verdict=show)
    assert names
    assert [kept.name for kept in Store().failures()] == names
