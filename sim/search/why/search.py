"""Looks for the step after which a run had to fail, and for the order of two steps that decides it.

Runs are tried that share the first steps of the failing one and then go on otherwise
(sim/world/steering.py). The last step from which one of them passes is the moment; what happens next
in the failing run is what must not have happened yet. It is held, while the rest goes on as it does where
it passes, until letting it go no longer makes the run fail: what happened just before is what had to come
first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from squall.model.events.run import Run
from squall.sim.scenario import Scenario
from squall.sim.search.replay_with_mutant import again
from squall.sim.search.why.witness import Witness
from squall.sim.stock.patience import computed_s
from squall.sim.world import interrupts
from squall.sim.world.garbage import settle
from squall.sim.world.steering import Path, Steering, Tail, Turn, more_tails, tails

#: real seconds that one run may take
RUN_S = 60.0
#: real seconds that it may take when the time for all is over, at least
_LEAST_S = 0.5
#: tails that are tried at each step, and that are drawn for that step alone
_TRIED, _FRESH = 5, 1
#: how many times as many are tried where nothing passes any more, at most, and for how many events of the run
_TIMES, _EVENTS = 4, 2_000
#: how many steps are tried late where none of all passes, times as many as that
_MORE = 10
#: all is quick, but for what comes next
_LATE = Tail("workers", late=True)
#: seeds between those that are drawn for one step and for the next
_DRAWN = 100
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
    that was not found. ``seconds``: of a processor, so that a busy machine finds no less.
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
    interrupted: bool = False
    #: False: the moment may be later, up to step ``latest``
    settled: bool = False
    latest: int = 0
    #: the failing run
    base: Witness = field(default_factory=Witness)
    #: somebody else leads the run, step by step
    is_listed: bool = False
    _times: int = 1
    _tails: list[Tail] = field(default_factory=list)
    _known: dict[Path, bool] = field(default_factory=dict)
    _until: float = 0.0

    def run(self) -> Search:
        """Search. An interrupt or the end of the time leaves what there is."""
        self._until = computed_s() + self.seconds
        with interrupts.heard():
            try:
                self.base = Witness()
                first = again(self.scenario, watcher=self.base, seconds=RUN_S)
                if self.holds(first):
                    return self
                if not self.base.entries:
                    self.is_listed = True
                    return self
                self._leave_out_what_holds(first)
                self.steps = self.latest = len(self.base.entries)
                self._tails = tails(first.workers or 1)
                # Short runs take little time: more of them are tried.
                self._times = max(1, min(_TIMES, _EVENTS // max(1, len(first.records))))
                self._find_moment()
                if self.moment is not None and not self.base.faults_at(self.moment.step):
                    self._find_order(self.moment)
            except OutOfTimeError:
                self.out_of_time = True
            except KeyboardInterrupt:
                self.interrupted = True
        return self

    def _leave_out_what_holds(self, run: Run) -> None:
        """Compare no gradients that are right in the failing run: that takes a fifth of the time."""
        script = self.scenario.script
        if script is not None and run.gradients is not None and run.gradients.equal is not False:
            self.scenario = replace(self.scenario, work=replace(script, check=False))

    def passes(self, path: Path) -> bool:
        """Whether the run on that path is well."""
        known = self._known.get(path)
        if known is None:
            if computed_s() > self._until:
                raise OutOfTimeError
            self.on_run(self.runs + 1)
            settle()
            known = self._known[path] = self.holds(self._again(Steering(path)))
            self.runs += 1
        return known

    def _order_passes(self, turn: Turn) -> bool:
        passed = self.passes((turn,))
        self.orders += 1
        self.failed += not passed
        return passed

    def _again(self, steering: Steering) -> Run:
        """A run along a path, which ends with the time for all."""
        left_s = max(_LEAST_S, self._until - computed_s())
        run = again(self.scenario, watcher=steering, seconds=min(RUN_S, left_s))
        interrupts.check()  # a run that has caught one shows nothing
        if run.crash and computed_s() > self._until:
            raise OutOfTimeError
        return run

    # -- the moment -----------------------------------------------------------------------------

    def _find_moment(self) -> None:
        good: list[Tail] = []
        for tail in self._tails:
            if self._order_passes(Turn(0, tail)):
                good.append(tail)
                if len(good) == _GOOD:
                    break
        points = self.base.telling_steps()
        if good:
            self._tails = [*good, *(tail for tail in self._tails if tail not in good)]
            self.moment = Moment(0, good[0])
        else:
            self.moment = self._one_late(points)
            if self.moment is None:
                return
        for _ in range(_ROUNDS):
            self._narrow(points)
            self.settled = True
            later = self._later(self.latest)
            if later is None:
                return
            self.moment, self.settled, self.latest = later, False, self.steps
        self._narrow(points)
        self.settled = True

    def _one_late(self, points: Sequence[int]) -> Moment | None:
        """A step that makes the run pass if it comes late, while all else is quick, the latest one first; or any
        other order."""
        most = _MORE * self._times
        chosen = [points[-1 - n * len(points) // most] for n in range(min(most, len(points)))]
        turns = [Turn(step, _LATE) for step in dict.fromkeys(chosen)]
        turns += [Turn(0, tail) for tail in more_tails(most // 2)]
        for turn in turns:
            if self._order_passes(turn):
                self._tails.insert(0, turn.tail)
                return Moment(turn.step, turn.tail)
        return None

    def _narrow(self, points: Sequence[int]) -> None:
        """Find the last step after which it passes: first among those that a user would name."""
        self._last(points)
        if self.moment is not None:
            self._last([self.moment.step + 1])
            self._last(range(self.moment.step + 1, self.latest))

    def _last(self, points: Sequence[int]) -> None:
        """Bring the moment and what comes after it as near to each other as these steps allow."""
        assert self.moment is not None, "it passes from somewhere"
        points = [each for each in points if self.moment.step < each < self.latest]
        low, high = -1, len(points)
        while high - low > 1:
            middle = (low + high) // 2
            tail = self._passing((), points[middle])
            if tail is None:
                high, self.latest = middle, points[middle]
            else:
                low, self.moment = middle, Moment(points[middle], tail)

    def _later(self, step: int) -> Moment | None:
        """A later moment, if one is found: there is none if a run that passes soon cannot any more."""
        left = self.steps - step
        for at, times in ((step, self._times), (step + left // 50, 1), (step + left // 10, 1)):
            tail = self._passing((), at, times)
            if tail is not None:
                return Moment(at, tail)
        return None

    def _passing(self, before: Path, step: int, times: int = 1) -> Tail | None:
        """A tail with which it passes after so many steps, among those that have passed and some that are drawn for
        that step; the one that has passed last is tried first. ``times``: as many as else."""
        drawn = [
            tail
            for n in range(_FRESH * times)
            for tail in (Tail("messages", step * _DRAWN + n), Tail("links", step * _DRAWN + n))
        ]
        drawn += [replace(self._tails[0], late=True), _LATE]
        for tail in [*self._tails[: _TRIED * times], *drawn]:
            if self.passes((*before, Turn(step, tail))):
                if tail in self._tails:
                    self._tails.remove(tail)
                self._tails.insert(0, tail)
                return tail
        return None

    # -- the order ------------------------------------------------------------------------------

    def _find_order(self, moment: Moment) -> None:
        holding = (Turn(moment.step, moment.tail, hold=True),)
        watched = Witness(holding)
        self._again(watched)
        first, last = moment.step + 1, len(watched.entries)
        where = self.base.worker_of(moment.step)
        points = [
            step + 1
            for step in watched.telling_steps()
            if step >= first and watched.worker_of(step) == where
        ]
        found = self._first(holding, points)
        if found is None:
            found = self._first(holding, range(first, last + 1))
        elif self._let_go(holding, found - 1) is not None:
            low = max((point for point in points if point < found), default=first)
            found = self._first(holding, range(low, found))
        if found is not None:
            tail = self._let_go(holding, found)
            assert tail is not None, "it has passed before"
            self.before = (*holding, Turn(found, tail))

    def _let_go(self, holding: Path, step: int) -> Tail | None:
        return self._passing(holding, step)

    def _first(self, holding: Path, points: Sequence[int]) -> int | None:
        """The first step at which what is held can be let go: it is looked for nearby first."""
        low, high, stride = -1, 0, 1
        while high < len(points) and self._let_go(holding, points[high]) is None:
            low, high, stride = high, high + stride, 2 * stride
        if high >= len(points):
            if not points or low == len(points) - 1:
                return None
            high = len(points) - 1
            if self._let_go(holding, points[high]) is None:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            if self._let_go(holding, points[middle]) is None:
                low = middle
            else:
                high = middle
        return points[high]
