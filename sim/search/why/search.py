"""Looks for the step after which a run had to fail, and for the order of two steps that decides it.

Runs are tried that share the first steps of the failing one and then go on otherwise
(sim/world/steering.py). The last step from which one of them passes is the moment; what happens next
in the failing run is what must not have happened yet. It is held, while the rest goes on as it does where
it passes, until letting it go no longer makes the run fail: what happened just before is what had to come
first.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from squall.model.events.run import Run
from squall.sim.scenario import Scenario
from squall.sim.search.again import again
from squall.sim.world.steering import Path, Steering, Tail, Turn, tails

#: real seconds that one run may take
RUN_S = 60.0
#: tails that are tried at each step, of those that have passed before
_TRIED = 4
#: tails that pass from the beginning which are enough
_GOOD = 3
#: how often a later step is looked for, when one from which a run passes turns up
_ROUNDS = 3

#: whether all is well with a run
Holds = Callable[[Run], bool]


class OutOfTimeError(Exception):
    """The time for the search is over."""


@dataclass
class Moment:
    """Nothing that was tried passes after step ``step`` of the failing run; with ``tail`` it passes before
    it."""

    step: int
    tail: Tail


@dataclass
class Search:
    """A search in one scenario.

    ``steps``: of the failing run. ``moment``: None if nothing passes, whatever the order. ``before``: the
    path on which the held step is let go, and the run passes, right after what had to come first; None if
    that was not found.
    """

    scenario: Scenario
    holds: Holds
    seconds: float
    on_run: Callable[[int], object] = lambda _: None
    runs: int = 0
    steps: int = 0
    moment: Moment | None = None
    before: Path | None = None
    #: other orders that were tried from the beginning, and how many of them failed
    orders: int = 0
    failed: int = 0
    out_of_time: bool = False
    _tails: list[Tail] = field(default_factory=list)
    _known: dict[Path, bool] = field(default_factory=dict)
    _until: float = 0.0

    def run(self) -> Search:
        """Search. An interrupt or the end of the time leaves what there is."""
        self._until = time.monotonic() + self.seconds
        base = Steering()
        first = again(self.scenario, watcher=base, seconds=RUN_S)
        self.steps = len(base.entries)
        self._tails = tails(first.workers or 1)
        try:
            self._find_moment()
            if self.moment is not None:
                self._find_order(self.moment)
        except OutOfTimeError:
            self.out_of_time = True
        return self

    def passes(self, path: Path) -> bool:
        """Whether the run on that path is well."""
        known = self._known.get(path)
        if known is None:
            if time.monotonic() > self._until:
                raise OutOfTimeError
            self.runs += 1
            self.on_run(self.runs)
            run = again(self.scenario, watcher=Steering(path), seconds=RUN_S)
            known = self._known[path] = self.holds(run)
        return known

    # -- the moment -----------------------------------------------------------------------------

    def _find_moment(self) -> None:
        good: list[Tail] = []
        for tail in self._tails:
            self.orders += 1
            if self.passes((Turn(0, tail),)):
                good.append(tail)
                if len(good) == _GOOD:
                    break
            else:
                self.failed += 1
        if not good:
            return
        self._tails = [*good, *(tail for tail in self._tails if tail not in good)]
        self.moment = Moment(0, good[0])
        for _ in range(_ROUNDS):
            low = self._last(self.moment.step, self.steps)
            tail = self._passing((), low, self._tails[:_TRIED])
            assert tail is not None, "it has passed before"
            self.moment = Moment(low, tail)
            later = self._later(low + 1)
            if later is None:
                return
            self.moment = later

    def _last(self, low: int, high: int) -> int:
        """The last step after which it passes, if it does after ``low`` and does not after ``high``."""
        while high - low > 1:
            middle = (low + high) // 2
            if self._passing((), middle, self._tails[:_TRIED]) is not None:
                low = middle
            else:
                high = middle
        return low

    def _later(self, step: int) -> Moment | None:
        """A later moment, if one is found: there is none if a run that passes soon cannot any more."""
        left = self.steps - step
        for at, tried in ((step, len(self._tails)), (step + left // 50, 3), (step + left // 10, 3)):
            tail = self._passing((), at, self._tails[:tried])
            if tail is not None:
                return Moment(at, tail)
        return None

    def _passing(self, before: Path, step: int, tried: list[Tail]) -> Tail | None:
        """A tail with which it passes after so many steps; the one that has passed last is tried first."""
        for tail in tried:
            if self.passes((*before, Turn(step, tail))):
                self._tails.remove(tail)
                self._tails.insert(0, tail)
                return tail
        return None

    # -- the order ------------------------------------------------------------------------------

    def _find_order(self, moment: Moment) -> None:
        holding = (Turn(moment.step, moment.tail, hold=True),)
        watched = Steering(holding)
        again(self.scenario, watcher=watched, seconds=RUN_S)
        last = len(watched.entries)
        low, high = moment.step, moment.step + 1
        while high <= last and self._passing(holding, high, self._tails[:_TRIED]) is None:
            low, high = high, moment.step + 2 * (high - moment.step)
        if high > last:
            return
        while high - low > 1:
            middle = (low + high) // 2
            if self._passing(holding, middle, self._tails[:_TRIED]) is None:
                low = middle
            else:
                high = middle
        tail = self._passing(holding, high, self._tails)
        assert tail is not None, "it has passed before"
        self.before = (*holding, Turn(high, tail))
