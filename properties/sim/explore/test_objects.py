"""What steps touch, as they tell it, against what they do touch of the objects of real/.

Two steps of different workers have nothing in common, and the arrival of a message has no more in
common with another step of its worker than four tables, in which it has an entry of its own.
"""

from __future__ import annotations

import random

import pytest

from squall.properties.sim.explore.test_sound import story
from squall.properties.sim.explore.test_worlds import WORLDS
from squall.properties.support.object_accesses import RecordedWithAccesses, accesses
from squall.sim.explore.dependencies import told
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.world.controlled_time import ChosenTime, Dependence, Grain

#: what arrivals share with steps that they are independent of, and why that is of no account
COMMUTES = {
    "CallTable._calls": "each takes out, or puts in, the entry of another call",
    "InFlight.served": "a count, at which none of them looks: who does touches `active`",
    "RpcAgent._seen": "each adds the id of another request",
    "TaskPool.busy": "a count, at which none of them looks while no thread is lacking",
}

#: what all workers of a process share: tables that remember what torch said
MEMOS = {
    "InputAbi._kinds": "what an entry is depends on its key alone",
    "InputAbi._offsets": "what an entry is depends on its key alone",
}


def shared(grain: Grain, dependence: Dependence, world: str, times: int = 3) -> set[str]:
    """What independent steps have in common in some random executions."""
    stream = random.Random(world)
    found: set[str] = set()
    with campaign_settings(), told(), accesses() as touched:
        for _ in range(times):
            recorded = RecordedWithAccesses(touched, grain, dependence=dependence, stream=stream)
            story(world)(recorded)
            conflicts = [each for each in recorded.conflicts() if each.attribute not in MEMOS]
            found |= {each.attribute for each in conflicts if each.arrivals}
            assert not [each for each in conflicts if not each.arrivals]
    return found


@pytest.mark.sampled(3)
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("grain", ["message", "task"])
def test_steps_of_different_workers_share_no_object(grain: Grain, world: str) -> None:
    assert shared(grain, "worker", world) == set()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("world", WORLDS)
def test_arrivals_share_tables_with_entries_of_their_own(world: str) -> None:
    assert shared("task", "delivery", world) <= COMMUTES.keys()


def test_each_of_these_tables_is_shared() -> None:
    assert shared("task", "delivery", "a diamond", times=10) == COMMUTES.keys()


def test_what_is_not_told_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of steps that say that they touch nothing most are taken for independent."""
    monkeypatch.setattr(ChosenTime, "touch", lambda *_: None)
    with campaign_settings(), told(), accesses() as touched:
        recorded = RecordedWithAccesses(touched, "task", stream=random.Random(5))
        story("a shared reference")(recorded)
        found = {each.attribute for each in recorded.conflicts()}
    assert {"OwnerTables.owners", "UserTables.pending_users", "OwnerRRef.future"} <= found
    assert found > COMMUTES.keys()
