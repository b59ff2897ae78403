"""Makes a failing scenario small: program, faults and order together, the same thing breaking.

    shrinker = Shrinker(scenario, seconds=60)
    shrinker.run()
    small = shrinker.best

Candidates are tried one after the other, and one that costs less (sim/search/shrink/cost.py) and breaks
the same property in the same way takes the place of the best. What is drawn from random streams
is first left out as a whole; if that cannot be, it is written down as a list of single deviations
(sim/search/shrink/concrete.py), of which most can go.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, replace
from typing import Any, TypeVar

from squall.model.checks.registry import check, named_property
from squall.model.events.failure_place import place_of
from squall.model.events.run import Run, Violation
from squall.model.shrink.cuts import cuts, fewer_workers, with_workers
from squall.model.shrink.simplifications import chunks
from squall.sim.faults.file import PlanError, check_plan
from squall.sim.faults.plan import (
    GROUPS,
    NO_FAULTS,
    Fault,
    MessageFault,
    Plan,
    Schedule,
)
from squall.sim.scenario import Expected, Scenario, World
from squall.sim.scenarios.engines import ENGINES
from squall.sim.scenarios.failure import with_expectation
from squall.sim.scenarios.play import play
from squall.sim.scenarios.replay import replay
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.mutants.registry import ALL_MUTANTS
from squall.sim.search.replay_with_mutant import planted
from squall.sim.search.shrink.concrete import concrete
from squall.sim.search.shrink.cost import cost, is_drawn
from squall.sim.trainings.cuts import smaller
from squall.sim.trainings.render import script_of
from squall.sim.trainings.training import training_in
from squall.sim.world import interrupts
from squall.sim.world.real_time import TooLongError, time_limit

T = TypeVar("T")

#: what is wrong with a scenario
Wrong = Callable[[Scenario], Iterable[Violation]]

#: other seeds that are tried where random numbers decide anything
_OTHER_SEEDS = (0, 1, 2)
#: real seconds that one run may take, and how many times as long as the first one took
_MOST_S, _TIMES = 20.0, 10
_LEAST_S = 2.0
_ROUND_S = (1.0, 0.1, 0.01, 10.0)


class NotFailingError(ValueError):
    """The scenario does not fail, so there is nothing to shrink."""


class _OutOfTimeError(Exception):
    """The time for shrinking is over."""


class Shrinker:
    """Looks for a smaller scenario that breaks the same property in the same way.

    ``seconds``: time to spend, None for as long as there is something to try; by ``clock``, which
    may be that of the process where others have the machine as well. ``place``: where it must show
    (:mod:`squall.model.events.failure_place`), None for anywhere. ``wrong``: says what is wrong with a
    scenario where no run of it alone does; the property is not in the result then, since no replay
    would show it. ``on_progress`` is called after each run. An interrupt ends :meth:`run` and leaves the best so
    far in :attr:`best`. For the main thread.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        place: str | None = None,
        wrong: Wrong | None = None,
        on_progress: Callable[[Shrinker], object] | None = None,
    ) -> None:
        self.first = scenario
        self.best = scenario
        self.tried = 0
        self.interrupted = False
        self.out_of_time = False
        self.target: Violation | None = None
        self._seconds, self._clock = seconds, clock
        self._place, self._wrong = place, wrong
        self._on_progress = on_progress or (lambda _: None)
        self._until: float | None = None
        self._limit_s = _MOST_S
        self._known: set[Scenario] = set()
        #: whether the scenario holds without the mutant that is planted
        self._by_mutant = True

    @property
    def _mutant(self) -> str | None:
        return self.first.expected.mutant

    def run(self) -> Scenario:
        """Shrink. Raises NotFailingError if the scenario holds."""
        started = self._clock()
        self._until = None if self._seconds is None else started + self._seconds
        with (
            interrupts.heard(),
            campaign_settings(self.first.world.device),
            planted(self._mutant),
        ):
            try:
                self.target = self._first_violation()
                self._by_mutant = self._holds_without_mutant(self.first)
                self._limit_s = max(_LEAST_S, min(_MOST_S, _TIMES * (self._clock() - started)))
                self._shrink()
            except KeyboardInterrupt:
                self.interrupted = True
            except _OutOfTimeError:
                self.out_of_time = True
        if self.target is not None:
            self._conclude()
        return self.best

    def _conclude(self) -> None:
        """Write the outcome of the best scenario's run into the scenario, as what to expect of a
        replay."""
        assert self.target is not None
        outcome, digest = "failed", None
        try:
            with planted(self._mutant):
                run = replay(self.best, seconds=_MOST_S)
            outcome, digest = run.outcome, run.digest if run.records else None
        except KeyboardInterrupt:  # another one: the scenario is kept, without a digest
            self.interrupted = True
        best = replace(self.best, profile=None, expected=Expected(mutant=self._mutant))
        if self._wrong is None:
            self.best = with_expectation(best, self.target, outcome=outcome, digest=digest)
        else:
            expected = replace(best.expected, outcome=outcome, digest=digest)
            self.best = replace(best, expected=expected)

    # -- does it fail ---------------------------------------------------------------------------

    def _first_violation(self) -> Violation:
        expected = self.first.expected
        plain = replace(self.first, expected=Expected())
        if self._wrong is None:
            run = replay(plain, seconds=_MOST_S)
            found = self._there(run, run.violations)
        else:
            found = list(self._wrong(plain))
        for violation in found:
            if (violation.property, violation.what) == (expected.property, expected.what):
                return violation
        if not found:
            raise NotFailingError("the scenario holds, there is nothing to make smaller")
        return found[0]

    def _there(self, run: Run, violations: Iterable[Violation]) -> list[Violation]:
        """Those that show where they must."""
        if self._place is None:
            return list(violations)
        return [each for each in violations if place_of(run, each) == self._place]

    def _fails(self, scenario: Scenario) -> bool:
        """Whether the same thing breaks in this scenario."""
        target = self.target
        assert target is not None
        if self._until is not None and self._clock() > self._until:
            raise _OutOfTimeError
        self.tried += 1
        try:
            with time_limit(self._limit_s, elsewhere=not ENGINES[scenario.engine].in_this_process):
                found = self._violations(scenario, target.property)
        except TooLongError:
            return (target.property, target.what) == ("progress", "the run broke off")
        except Exception:
            # A candidate may make so little sense that it cannot be run or checked.
            return False
        finally:
            self._on_progress(self)
        interrupts.check()  # a run that has caught one shows nothing
        return any((each.property, each.what) == target[:2] for each in found)

    def _violations(self, scenario: Scenario, name: str) -> Iterable[Violation]:
        if self._wrong is not None:
            return self._wrong(scenario)
        if scenario.script is not None:
            run = replay(replace(scenario, expected=Expected()))
            return self._there(run, run.violations)
        run = play(scenario, times=2 if name == "determinism" else 1)
        try:
            property = named_property(name, scenario.engine)
        except KeyError:
            return self._there(run, check(run))
        return self._there(run, property.check(run))

    def _holds_without_mutant(self, scenario: Scenario) -> bool:
        """Whether the scenario holds without the planted bug, so that nothing else breaks it."""
        if self._mutant is None or not self._by_mutant:
            return True
        with ALL_MUTANTS[self._mutant].lifted():
            plain = replace(scenario, expected=Expected())
            if self._wrong is not None:
                return not list(self._wrong(plain))
            return not replay(plain, seconds=self._limit_s).violations

    def _attempt(self, candidate: Scenario) -> bool:
        """Make a candidate the best if it costs less and fails."""
        if cost(candidate) >= cost(self.best):
            return False
        for seed in (candidate.seed, *(_OTHER_SEEDS if is_drawn(candidate) else ())):
            scenario = replace(candidate, seed=seed)
            if scenario in self._known:
                continue
            self._known.add(scenario)
            if self._fails(scenario) and self._holds_without_mutant(scenario):
                self.best = scenario
                return True
        return False

    # -- what is tried --------------------------------------------------------------------------

    def _shrink(self) -> None:
        self._plainer()
        self._until_nothing_helps(self._programs)
        self._drawn()
        while True:
            before = self.best
            self._plainer()
            self._until_nothing_helps(self._programs)
            self._until_nothing_helps(self._faults)
            if self.best == before:
                return

    def _until_nothing_helps(self, candidates: Callable[[], Iterator[Scenario]]) -> None:
        while any(self._attempt(candidate) for candidate in candidates()):
            pass

    def _plainer(self) -> None:
        """Leave whole deviations out."""
        best = self.best
        self._attempt(
            best.in_world(
                faults=NO_FAULTS,
                shut_down_early=False,
                skip_handshakes=False,
                latency="0",
                bandwidth_bytes_per_s=None,
            )
        )
        self._attempt(self.best.in_world(faults=NO_FAULTS))
        self._attempt(self._with_plan(schedule=Schedule()))
        for latency in ("0", "constant:0.001"):
            self._attempt(self.best.in_world(latency=latency, bandwidth_bytes_per_s=None))
        self._attempt(self.best.in_world(shut_down_early=False))
        self._attempt(self.best.in_world(skip_handshakes=False))
        self._attempt(replace(self.best, seed=0))
        self._items()
        self._deviations()

    def _with_plan(self, **changes: Any) -> Scenario:
        return self.best.in_world(faults=replace(self.best.faults, **changes))

    def _items(self) -> None:
        """Leave items of the plan out."""
        items = [(group, item) for group, _, item in self.best.faults.items()]

        def rebuilt(left: Sequence[tuple[str, Fault]]) -> Scenario:
            groups: dict[str, Any] = {
                name: tuple(item for group, item in left if group == name) for name in GROUPS
            }
            return self._with_plan(**groups)

        self._fewer(items, rebuilt)

    def _deviations(self) -> None:
        """Leave single deviations of the order out."""
        schedule = self.best.faults.schedule
        self._fewer(
            schedule.late,
            lambda left: self._with_plan(
                schedule=replace(self.best.faults.schedule, late=tuple(left))
            ),
        )
        self._fewer(
            schedule.yields,
            lambda left: self._with_plan(
                schedule=replace(self.best.faults.schedule, yields=tuple(left))
            ),
        )
        self._fewer(
            schedule.chosen,
            lambda left: self._with_plan(
                schedule=replace(self.best.faults.schedule, chosen=tuple(left))
            ),
        )

    def _fewer(self, things: Sequence[T], rebuilt: Callable[[list[T]], Scenario]) -> None:
        """Delta debugging (Zeller): leave out ever smaller parts of a list."""
        left = list(things)
        parts = 1
        while left:
            length = -(-len(left) // parts)
            helped = False
            start = 0
            while start < len(left):
                fewer = left[:start] + left[start + length :]
                if self._attempt(rebuilt(fewer)):
                    left, helped = fewer, True
                else:
                    start += length
            if length == 1 and not helped:
                return
            parts = min(parts * 2, max(len(left), 1)) if not helped or length > 1 else parts

    def _drawn(self) -> None:
        """Write down what is drawn, and leave most of it out."""
        if self.best.program is None or not is_drawn(self.best):
            return
        for candidate in concrete(self.best):
            if self._attempt(candidate):
                self._items()
                self._deviations()

    def _programs(self) -> Iterator[Scenario]:
        best = self.best
        if best.program is None:
            yield from self._scripts()
            return
        for mapping in fewer_workers(best.program):
            plan = _plan_with_workers(best.faults, mapping)
            if plan is not None:
                program = with_workers(best.program, mapping)
                yield replace(best, work=program, world=replace(best.world, faults=plan))
        for program in cuts(best.program):
            if _fits(best.faults, program.workers):
                yield replace(best, work=program)

    def _scripts(self) -> Iterator[Scenario]:
        script = self.best.script
        if script is None or script.workers is None:
            return
        training = training_in(script.text)
        if training is not None:
            for less in smaller(training):
                if _fits(self.best.faults, less.ranks):
                    yield replace(self.best, work=script_of(less, script.path))
            return
        for workers in dict.fromkeys((1, 2, script.workers // 2, script.workers - 1)):
            if 1 <= workers < script.workers and _fits(self.best.faults, workers):
                yield replace(self.best, work=replace(script, workers=workers))

    def _faults(self) -> Iterator[Scenario]:
        """Items with plainer values, and one item for several."""
        plan = self.best.faults
        for merged in _mergers(plan.messages):
            yield self._with_plan(messages=merged)
        if plan.heal_s is not None:
            yield self._with_plan(heal_s=None)
        if plan.begin != "ready":
            yield self._with_plan(begin="ready")
        for group, at, item in plan.items():
            for plainer in _plainer_items(item):
                items = list(getattr(plan, group))
                items[at] = plainer
                changed = plan_with(plan, group, items)
                if _fits(changed, self.best.workers):
                    yield self.best.in_world(faults=changed)
        if self.best.world.rpc_timeout_s != World().rpc_timeout_s:
            yield self.best.in_world(rpc_timeout_s=World().rpc_timeout_s)


def plan_with(plan: Plan, group: str, items: Sequence[Fault]) -> Plan:
    """The plan with other items in one group."""
    changes: dict[str, Any] = {group: tuple(items)}
    return replace(plan, **changes)


def _mergers(items: Sequence[MessageFault]) -> Iterator[tuple[MessageFault, ...]]:
    """One item instead of those that differ only in which of their messages they mean: it means
    all of them, or the same ones."""
    alike: dict[MessageFault, list[int]] = {}
    for at, item in enumerate(items):
        if item.nth and not item.draws:
            alike.setdefault(replace(item, nth=(), id=0), []).append(at)
    for item, places in alike.items():
        rest = tuple(other for at, other in enumerate(items) if at not in places)
        if len(places) > 1 or len(items[places[0]].nth) > 1:
            yield (*rest, item)
        if len(places) > 1:
            nth = sorted({n for at in places for n in items[at].nth})
            yield (*rest, replace(item, nth=tuple(nth)))


_KEPT = ("nth", "types", "src", "dst", "worker", "kind", "probability")


def _plainer_items(item: Any) -> list[Fault]:
    found: list[Fault] = []
    for field in fields(item):
        value = getattr(item, field.name)
        if field.name == "nth" and isinstance(value, tuple) and len(value) > 1:
            for gone in chunks(len(value)):
                left = tuple(n for at, n in enumerate(value) if at not in gone)
                if left:
                    found.append(replace(item, nth=left))
        elif field.name not in _KEPT:
            if field.default is not MISSING and value != field.default:
                with suppress(ValueError):  # it may make no sense beside the others
                    found.append(replace(item, **{field.name: field.default}))
            if isinstance(value, float):
                for plain in _ROUND_S:
                    with suppress(ValueError):  # nothing lasts 0 s that has to last at all
                        found.append(replace(item, **{field.name: plain}))
    return found


def _fits(plan: Plan, workers: int | None) -> bool:
    try:
        check_plan(plan, workers=workers)
    except PlanError:
        return False
    return True


def _plan_with_workers(plan: Plan, mapping: dict[int, int]) -> Plan | None:
    """The plan with workers renumbered; None if an item would mean something else then."""
    found = plan.renumbered(mapping)
    if found is None or not _fits(found, len(set(mapping.values()))):
        return None
    return found
