"""What is found is kept: whatever ends the process, each printed failure is in the store."""

from __future__ import annotations

import os
import random
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from squall.sim.scenario import Expected
from squall.sim.scenarios.keeping import Keeper, failed_scenario
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.scenarios.store import Place, Store, StoreError, write_synced
from squall.sim.search.campaign import Campaign, Failure, run_campaign
from squall.sim.search.draw import draw
from squall.sim.search.judge import Verdict
from squall.sim.search.mutants.planted import MUTANTS

KILLS = 50


def test_a_failure_is_a_row_and_a_file(tmp_path: Path) -> None:
    place = Place(tmp_path / "store")
    scenario = replace(
        (draw(7)),
        seed=2**64 - 1,
        expected=Expected(digest="d", outcome="failed", property="rrefs", what="an owner was left"),
    )
    with Store(place) as store:
        kept = store.keep(scenario, found_by="fuzz", text="in full")
        store.keep(scenario, found_by="somebody else")  # it is known already
    with Store(place, read_only=True) as store:
        (found,) = store.failures()
        assert found == kept
        assert store.scenario(found) == scenario
        assert store.find(kept.name) == store.find(kept.name[:5]) == kept
        assert store.find("nope") is None
    assert (found.seed, found.workers, found.property) == (2**64 - 1, scenario.workers, "rrefs")
    assert found.replay == f"squall replay {found.file}"


def test_no_store_is_an_empty_one(tmp_path: Path) -> None:
    with Store(Place(tmp_path / "none"), read_only=True) as store:
        assert store.failures() == []
    assert list(tmp_path.iterdir()) == []


def test_a_store_of_another_version_is_refused(tmp_path: Path) -> None:
    import sqlite3

    place = Place(tmp_path)
    with sqlite3.connect(place.database) as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="tables of version 99, expected 1"), Store(place):
        pass


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_synced(path, "one")
    with pytest.raises(UnicodeEncodeError):
        write_synced(path, "two \ud800")
    assert path.read_text() == "one"
    assert list(tmp_path.iterdir()) == [path]


def test_a_store_that_cannot_be_used_does_not_end_a_campaign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("SQUALL_STORE", str(tmp_path / "file"))
    told: list[str] = []
    scenario = draw(1)
    with Keeper(told.append) as keeper:
        assert keeper.keep(scenario, found_by="fuzz", text="") is None
        assert keeper.keep(scenario, found_by="fuzz", text="") is None
    (line,) = told
    assert line.startswith("failures are not kept: ")


def test_no_kill_loses_a_printed_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A campaign against a planted bug is killed fifty times at random moments; whatever it had
    printed is in the store, with its whole scenario."""
    monkeypatch.setenv("SQUALL_STORE", str(tmp_path / "store"))
    moments = random.Random(1)
    printed: set[str] = set()
    for number in range(KILLS):
        told = tmp_path / f"told-{number}"
        child = os.fork()
        if child == 0:
            try:
                _campaign(told, first=number * 20)
            finally:
                os._exit(0)
        # Some are killed on the way to their first failure, others after one or two of them.
        while not told.exists() or told.read_text().count("\n") < number % 3:
            time.sleep(0.001)
        time.sleep(moments.uniform(0.0, 0.1))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        *lines, _ = told.read_text().split("\n")  # what has no end was not printed
        printed.update(lines)
    with Store(read_only=True) as store:
        kept = {each.name: each for each in store.failures()}
        assert len(printed) > KILLS / 5
        assert printed <= set(kept)
        for each in kept.values():
            assert store.scenario(each).name == each.name


def _campaign(told: Path, *, first: int) -> None:
    """What the killed process does: as ``squall fuzz``, printing into a file."""

    def show(verdict: Verdict, failure: Failure | None, campaign: Campaign) -> None:
        if failure is None:
            return
        kept = keeper.keep(failed_scenario(failure), found_by="fuzz", text="")
        assert kept is not None
        os.write(out, f"{kept.name}\n".encode())

    out = os.open(told, os.O_CREAT | os.O_WRONLY)
    with (
        Keeper(lambda _: None) as keeper,
        MUTANTS["release-only-here"].apply(),
        campaign_settings(),
    ):
        for seed in range(first, first + 1000):
            run_campaign([seed], on_verdict=show)
