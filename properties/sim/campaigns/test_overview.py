"""What a page shows of a campaign: who has judged what, how fast, and what was seen."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest

from squall.model.coverage.behaviour import SETS
from squall.properties.sim.campaigns.test_store import PLAN, filled, made_up
from squall.properties.support.postgresql import Server
from squall.sim.campaigns.address import Address
from squall.sim.campaigns.status import speed, status_of, workers
from squall.sim.campaigns.store import CampaignStore, merge
from squall.sim.campaigns.store_reader import open_store
from squall.sim.campaigns.tables import CANARY, TRIAGE

#: one fact of each set
FACTS = tuple(number << 56 | 7 for number in range(len(SETS)))


def watched(place: Path | Address) -> CampaignStore:
    """Two workers, one of which is twice as slow, and behaviour that each lease of a part shows."""
    store = CampaignStore(place, PLAN.said(), resume=False)
    for number, judged in enumerate(made_up(PLAN)):
        slow = number % 2
        store.take(
            [
                judged._replace(
                    worker=("fast", "slow")[slow],
                    host="here",
                    seconds=1.0 + slow,
                    facts=FACTS[: number + 1],
                    situations=("a call after its owner has left",),
                )
            ]
        )
    return store


@pytest.mark.parametrize("on_server", [False, True], ids=["file", "server"])
def test_sums(tmp_path: Path, request: pytest.FixtureRequest, on_server: bool) -> None:
    place: Path | Address = tmp_path / "db"
    if on_server:
        server: Server = request.getfixturevalue("postgresql")
        place = Address.read(server.url(request.getfixturevalue("database")))
    before = time.time()
    store = watched(place)
    fast, slow = workers(store)
    assert (fast.host, fast.name, slow.name) == ("here", "fast", "slow")
    assert (fast.leases, slow.leases) == (9, 9)
    assert fast.per_second == pytest.approx(fast.scenarios / 9)
    assert slow.per_second == pytest.approx(slow.scenarios / 18)
    assert fast.scenarios + slow.scenarios == store.counts()[0]
    ((first, last),) = store.ask("SELECT min(finished), max(finished) FROM lease")
    assert before <= first <= fast.last <= last <= time.time()
    asked = "SELECT number, shares, host, pid FROM share"
    assert store.ask(asked) == [(0, 1, socket.gethostname(), os.getpid())]
    curve = speed(store, 10)
    assert len(curve) == 10
    assert curve[-1][0] == pytest.approx(last)
    span = (last - first) / 10
    assert sum(rate * span for _, rate in curve) == pytest.approx(42)
    parts = status_of(store).parts
    assert [part.name for part in parts] == [part.name for part in PLAN.parts]
    assert (parts[0].facts, parts[-1].facts) == (len(FACTS), len(FACTS))
    assert {part.reached for part in parts} == {1}
    store.close()


def test_what_differs_each_time_is_in_no_verdict(tmp_path: Path) -> None:
    plain, with_all = filled(tmp_path / "plain"), watched(tmp_path / "all")
    assert with_all.verdicts() == plain.verdicts()
    plain.close()
    with_all.close()


def test_what_is_known_of_failures_and_planted_bugs(
    tmp_path: Path, postgresql: Server, database: str
) -> None:
    bug = {"part": "canaries", "name": "release-only-here", "scenarios": 9, "seconds": 1.5}
    kind = {"property": "rrefs", "what": "B", "place": "worker 1, event 7", "at": 1.0}
    for place in (Address(tmp_path / "db"), Address.read(postgresql.url(database))):
        store = filled(place)
        store.note(CANARY, {**bug, "noticed": None, "at": 1.0})
        store.note(CANARY, {**bug, "noticed": 9, "at": 2.0})
        store.note(TRIAGE, kind)
        store.note(TRIAGE, {**kind, "scenario": "abc.json", "events": 41, "at": 2.0})
        store.close()
        reading = open_store(place)
        (canary,) = reading.rows(CANARY)
        assert (canary["noticed"], canary["at"]) == (9, 2.0)
        (known,) = reading.rows(TRIAGE)
        assert (known["place"], known["scenario"], known["events"]) == (
            "worker 1, event 7", "abc.json", 41,
        )  # fmt: skip
        reading.close()
    merged, _ = merge([tmp_path / "db"], tmp_path / "merged", resume=False)
    assert len(list(merged.rows(CANARY))) == len(list(merged.rows(TRIAGE))) == 1
    merged.close()
