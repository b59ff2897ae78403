"""What a driver makes of its workers, and what the place of processes does about bad ones."""

import os
import signal
import tracemalloc
from collections import deque
from functools import partial

import pytest

from squall.properties.sim.campaigns.test_driver import PLAN, planted, table
from squall.properties.support.descendants import descendants
from squall.sim.campaigns.driver import LOSSES, drive
from squall.sim.campaigns.hosted import Hosted
from squall.sim.campaigns.lease import Judged
from squall.sim.campaigns.parts import Part
from squall.sim.campaigns.place import Done, Heard, Joined, Left, PlaceError
from squall.sim.campaigns.plan import Plan, versions
from squall.sim.campaigns.pool import TRIES, Pool
from squall.sim.campaigns.store import CampaignStore
from squall.sim.world.sandbox import resident_bytes


class Told:
    """A place with workers that judge nothing: what they are given comes back as judged, or as
    ``answer`` makes it. ``workers``: those that join, one after the other has left."""

    def __init__(self, *workers, room=4, versions=None, answer=lambda worker, lease: True):
        self.workers, self.room, self.answer = deque(workers), room, answer
        self.versions = versions
        self.events, self.given, self.stopped, self.closed = [], [], [], False

    def _join(self):
        if self.workers:
            name = self.workers.popleft()
            self.events.append(Joined(name, 2, self.room, self.versions or versions()))

    def start(self, worker, lease):
        self.given.append((worker, lease))
        answered = self.answer(worker, lease)
        if answered is True:
            judged = Judged(lease, f"{lease}", len(lease.seeds), ())
            self.events += [Done(worker, judged)]
        elif answered is not None:
            self.events.append(answered)
            self._join()

    def poll(self, timeout_s):
        if not self.given and not self.events:
            self._join()
        found, self.events = self.events, []
        return found

    def stop(self, worker):
        self.stopped.append(worker)
        self._join()

    def close(self):
        self.closed = True


def driven(tmp_path, place, plan=PLAN, **options):
    """What was told, and how many scenarios there are in the store then."""
    losses = []
    told = []
    store = CampaignStore(tmp_path / "db", plan.said(), resume=False)
    try:
        drive(plan, store, place, on_loss=losses.append, on_lease=told.append, **options)
    finally:
        assert place.closed
        counts = store.counts()
        store.close()
    return losses, told, counts[0]


def test_what_a_lost_worker_had_goes_out_again_and_counts_once(tmp_path):
    def answer(worker, lease):
        return Left(worker, "the end of it") if worker == "first" else True

    place = Told("first", "second", answer=answer)
    losses, told, judged = driven(tmp_path, place)
    assert losses[0].startswith("worker first is gone (the end of it)")
    assert judged == sum(len(each.lease.seeds) for each in told) == PLAN.scenarios
    assert {worker for worker, _ in place.given} == {"first", "second"}


def test_a_silent_worker_is_ended_and_what_it_says_later_counts_once(tmp_path):
    kept = []

    def answer(worker, lease):
        if worker == "first":
            kept.append(Done(worker, Judged(lease, f"{lease}", len(lease.seeds), ())))
            return None
        # the first was not dead, after all
        late, kept[:] = kept[:], []
        place.events += late
        return True

    place = Told("first", "second", answer=answer)
    losses, told, judged = driven(tmp_path, place, silence_s=0.5)
    assert place.stopped == ["first"]
    assert "not heard of for 0.5 s" in losses[0]
    assert judged == sum(len(each.lease.seeds) for each in told) == PLAN.scenarios


def test_a_worker_of_other_code_is_refused(tmp_path):
    other = versions() | {"torch": "2.0"}
    with pytest.raises(PlaceError, match=r"^torch of the worker w is '2.0' and of the driver '"):
        driven(tmp_path, Told("w", versions=other))


def test_a_lease_that_ends_its_workers_ends_the_campaign(tmp_path):
    names = [str(number) for number in range(100)]
    place = Told(*names, answer=lambda worker, lease: Left(worker, "killed"))
    with pytest.raises(PlaceError, match=f"^{LOSSES} workers have ended with the seeds plain 0:2"):
        driven(tmp_path, place)


def test_the_driver_takes_no_memory_for_leases(tmp_path):
    half = range(50_000_000)
    plan = Plan((Part("plain", half), Part("rough", half, "rough")), size=20_000)
    place = Told("w", room=250)  # that many in one transaction
    place.given = deque(maxlen=1)
    sizes = []

    def on_look(look):
        sizes.append(tracemalloc.get_traced_memory()[0])

    store = CampaignStore(tmp_path / "db", plan.said(), resume=False)
    tracemalloc.start()
    drive(plan, store, place, on_look=on_look)
    tracemalloc.stop()
    assert store.counts()[0] == plan.scenarios == 10**8
    assert max(sizes) - sizes[len(sizes) // 4] < 1_000_000
    store.close()


def test_a_scenario_with_too_much_memory_fails(tmp_path):
    plan = Plan((Part("rough", range(1), "rough"),), size=1)
    limit = resident_bytes() + (300 << 20)
    hoard = "import time; _hoard = b'x' * (500 << 20); time.sleep(60)"
    store = CampaignStore(tmp_path / "db", plan.said(), resume=False)
    with planted(hoard).apply():
        drive(plan, store, Pool(memory_bytes=limit))
    (kind,) = store.kinds()
    assert (kind.property, kind.what) == ("progress", "too much memory")
    assert kind.text.endswith(f" MiB, {TRIES} times")
    store.close()


def test_a_process_beside_the_driver_judges_the_same(tmp_path):
    whole = table(tmp_path / "whole")
    kills = []

    def kill(judged):
        kills.append(judged)
        for pid, command in descendants().items():
            if "hosted" in command and pid != place._host.pid and len(kills) < TRIES:
                os.kill(pid, signal.SIGKILL)

    place = Hosted(partial(Pool, 2, ahead=2))
    store = CampaignStore(tmp_path / "hosted", PLAN.said(), resume=False)
    drive(PLAN, store, place, on_lease=kill)
    assert "".join(store.lines()) == whole
    store.close()
    assert not [command for command in descendants().values() if "hosted" in command]


def test_the_end_of_the_process_beside_the_driver_is_told(tmp_path):
    place = Hosted(Pool)
    store = CampaignStore(tmp_path / "db", PLAN.said(), resume=False)
    with pytest.raises(PlaceError, match=r"has ended, signal 9"):
        drive(PLAN, store, place, on_lease=lambda judged: os.kill(place._host.pid, signal.SIGKILL))
    assert store.counts()[0] > 0
    store.close()
    broken = Hosted(partial(divmod, 1, 0))
    with pytest.raises(PlaceError, match=r"^ZeroDivisionError: "):
        drive(PLAN, CampaignStore(tmp_path / "none", PLAN.said(), resume=False), broken)


def test_a_look_at_a_pool_that_has_nothing_to_do():
    pool = Pool(2)
    (joined,) = pool.poll(0.0)
    assert joined == Joined("here", 2, 2, versions())
    assert pool.poll(0.01) == [Heard("here", 0)]
    pool.close()
