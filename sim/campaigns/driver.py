"""Hands out leases to workers, keeps what comes back, and hands out again what is lost."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from squall.sim.campaigns.lease import Judged
from squall.sim.campaigns.place import Done, Event, Heard, Joined, Left, Place, PlaceError
from squall.sim.campaigns.plan import Lease, Plan, versions
from squall.sim.campaigns.store import CampaignStore
from squall.sim.world import interrupts

#: real seconds without a sign of life after which a worker counts as gone, and between two looks
SILENCE_S, _LOOK_S = 60.0, 0.25
#: real seconds without any worker after which a campaign is given up
NOBODY_S = 600.0
#: workers that a lease may lose before the campaign is given up: it may be what ends them
LOSSES = 10


class Look(NamedTuple):
    """How a campaign stands. ``under_way``: verdicts that are not yet on disk. ``jobs``: leases that
    are judged at the same time, by so many ``workers``."""

    under_way: int
    jobs: int
    workers: int


@dataclass
class _Worker:
    jobs: int
    room: int
    heard: float
    verdicts: int = 0
    leases: dict[tuple[str, int], Lease] = field(default_factory=dict)


def drive(
    plan: Plan,
    store: CampaignStore,
    place: Place,
    *,
    silence_s: float = SILENCE_S,
    on_lease: Callable[[Judged], object] = lambda judged: None,
    on_look: Callable[[Look], object] = lambda look: None,
    on_loss: Callable[[str], object] = lambda line: None,
) -> None:
    """Judge what the store does not have of the plan; the place is closed when this returns.

    ``silence_s``: real seconds after which a worker that is not heard of counts as gone. ``on_lease``
    gets what has come to be on disk, ``on_look`` is called several times a second, ``on_loss`` gets
    a line about a worker that is gone. Raises KeyboardInterrupt, CampaignStoreError, PlaceError. For
    the main thread.
    """
    driver = _Driver(plan, store, place, silence_s, on_loss)
    with interrupts.heard():
        try:
            while driver.hand_out():
                interrupts.check()
                done = driver.look()
                if done:
                    with interrupts.deferred():  # what is on disk is told
                        for judged in store.take(done):
                            on_lease(judged)
                    interrupts.check()
                if driver.looked_at:
                    on_look(driver.seen())
        finally:
            place.close()


class _Driver:
    """What is out, and where. Its memory grows with the number of workers, not with that of leases."""

    def __init__(
        self,
        plan: Plan,
        store: CampaignStore,
        place: Place,
        silence_s: float,
        on_loss: Callable[[str], object],
    ) -> None:
        self._place, self._silence_s, self._on_loss = place, silence_s, on_loss
        self._new: Iterator[Lease] = store.left(plan.leases())
        self._next = next(self._new, None)
        self._versions = versions()
        self._again: deque[Lease] = deque()
        self._losses: Counter[tuple[str, int]] = Counter()
        self._workers: dict[str, _Worker] = {}
        #: workers that may have room, and leases that are out
        self._free: deque[str] = deque()
        self._out = 0
        self._look_next = 0.0
        self._listened = self._somebody = time.monotonic()
        #: whether the last look was one of several a second
        self.looked_at = False

    def hand_out(self) -> bool:
        """Fill the room that workers have. False once nothing is left to be judged."""
        while self._free and (self._again or self._next is not None):
            name = self._free[0]
            worker = self._workers.get(name)
            if worker is None or len(worker.leases) >= worker.room:
                self._free.popleft()
                continue
            self._free.rotate(-1)  # one each, before any has two
            lease = self._take_next()
            worker.leases[lease.key] = lease
            self._out += 1
            self._place.start(name, lease)
        return bool(self._out or self._again or self._next is not None)

    def look(self) -> list[Judged]:
        """Wait a little for what happens, and see to it. Returns what was judged."""
        done: dict[tuple[str, int], Judged] = {}  # one that went out twice may come back twice
        now = time.monotonic()
        self._not_listened(now - self._listened)
        for event in self._place.poll(_LOOK_S):
            if type(event) is Done:
                done[event.judged.lease.key] = event.judged._replace(worker=event.worker)
            self._see(event, now)
        self._listened = time.monotonic()
        self.looked_at = now >= self._look_next
        if self.looked_at:  # what takes time with each worker is done several times a second
            self._look_next = now + _LOOK_S
            self._end_silent(now)
        return list(done.values())

    def _not_listened(self, seconds: float) -> None:
        """While a store is waited for, workers are not silent: nobody hears them."""
        if seconds > _LOOK_S:
            for worker in self._workers.values():
                worker.heard += seconds

    def _end_silent(self, now: float) -> None:
        if self._workers:
            self._somebody = now
        elif now - self._somebody > NOBODY_S:
            raise PlaceError(f"there has been no worker for {NOBODY_S:g} s")
        for name in [n for n, w in self._workers.items() if now - w.heard > self._silence_s]:
            self._place.stop(name)
            self._lose(name, f"not heard of for {self._silence_s:g} s")

    def seen(self) -> Look:
        workers = self._workers.values()
        jobs = sum(worker.jobs for worker in workers)
        return Look(sum(worker.verdicts for worker in workers), jobs, len(workers))

    def _see(self, event: Event, now: float) -> None:
        match event:
            case Joined(name, jobs, room, theirs):
                for what, ours in self._versions.items():
                    if theirs.get(what) != ours:
                        raise PlaceError(
                            f"{what} of the worker {name} is {theirs.get(what)!r} and of the driver "
                            f"{ours!r}: verdicts would differ"
                        )
                self._workers[name] = _Worker(jobs, room, now)
                self._free.append(name)
            case Heard(name, verdicts) if name in self._workers:
                worker = self._workers[name]
                worker.heard, worker.verdicts = now, verdicts
            case Done(name, judged) if name in self._workers:
                worker = self._workers[name]
                worker.heard = now
                if worker.leases.pop(judged.lease.key, None) is not None:
                    self._out -= 1
                    self._free.append(name)
                if self._losses:
                    self._losses.pop(judged.lease.key, None)
            case Left(name, why) if name in self._workers:
                self._lose(name, why)

    def _lose(self, name: str, why: str) -> None:
        leases = self._workers.pop(name).leases
        self._out -= len(leases)
        again = f", {len(leases)} of its leases go out again" if leases else ""
        self._on_loss(f"worker {name} is gone ({why}){again}")
        for key, lease in leases.items():
            self._losses[key] += 1
            if self._losses[key] == LOSSES:
                raise PlaceError(
                    f"{LOSSES} workers have ended with the seeds {lease}, {name} last: {why}"
                )
            self._again.append(lease)

    def _take_next(self) -> Lease:
        if self._again:
            return self._again.popleft()
        lease = self._next
        assert lease is not None
        self._next = next(self._new, None)
        return lease
