"""A script under many seeds: each has latencies, an order and faults of its own; and what the first
failure comes down to."""

from __future__ import annotations

import io
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from squall.model.checks.scripts import of_a_fault, raised
from squall.model.events.names import number_of
from squall.model.events.run import Violation
from squall.sim.faults.draw import Profile
from squall.sim.faults.plan import NO_FAULTS, Plan
from squall.sim.library.errors import TOLD_ELSEWHERE, not_simulated, problems
from squall.sim.library.hypotheses import outside
from squall.sim.library.run import Failed, Run, run_scenario, turn
from squall.sim.library.why import Cause, cause_of, keep_cause
from squall.sim.names import EngineName
from squall.sim.scenario import Expected, Scenario, Script
from squall.sim.scenarios.failure import with_expectation
from squall.sim.scenarios.keeping import Keeper
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.draw import draw_world_of_script, expanded_plan
from squall.sim.search.shrink.shrinker import NotFailingError, Shrinker
from squall.sim.search.why.cause import NotFailingError as NothingWrongError
from squall.sim.search.why.told import lines as why_lines
from squall.sim.stock.patience import computed_s

#: seconds of a processor that shrinking may take, unless somebody says otherwise
SHRINK_S = 20.0


@dataclass(frozen=True, kw_only=True)
class Around:
    """What all runs of a campaign have in common.

    ``profile`` draws the faults of each seed, or they are those of ``plan``; ``latency`` None: drawn
    for each seed. ``strict``: an error that a fault may have caused is a failure as well.
    """

    engine: EngineName = "port"
    profile: Profile | None = None
    plan: Plan = NO_FAULTS
    latency: str | None = None
    strict: bool = False

    def scenario(self, script: Script, seed: int) -> Scenario:
        """What a seed stands for."""
        world = draw_world_of_script(seed, script.workers or 0, self.profile, self.plan)
        if self.latency is not None:
            world = replace(world, latency=self.latency)
        return Scenario(
            work=script, seed=seed, world=world, engine=self.engine, profile=self.profile
        )


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A run that failed, after ``tried`` others had not, and the smallest that fails alike.

    ``file``: where the small one is kept, if it could be. ``why``: what decided that it fails, if that was
    asked for.
    """

    run: Run
    tried: int
    small: Run
    shrink_runs: int
    strict: bool
    file: str = ""
    why: Cause | None = None

    @cached_property
    def problems(self) -> list[str]:
        """What is wrong with the small run, a line each."""
        return problems(self.small.inner, self.small.errors, strict=self.strict)

    @property
    def interrupted(self) -> bool:
        """Whether somebody has ended the search for what decided it."""
        return self.why is not None and self.why.interrupted

    @property
    def replay(self) -> str:
        """A command that shows it again."""
        return shlex.join(["squall", "replay", self.file]) if self.file else ""

    @property
    def timeline(self) -> str:
        """A command that makes a page of pictures of it."""
        return shlex.join(["squall", "timeline", self.file]) if self.file else ""

    def lines(self) -> list[str]:
        """All of it, for people."""
        found, small = self.run.scenario, self.small.scenario
        profile = f", faults {found.profile}" if found.profile else ""
        lines = [*self.problems, ""]
        if self.why is not None:
            lines += [*why_lines(self.why), ""]
        workers = f", {number_of(found.workers, 'worker')}" if found.workers is not None else ""
        lines.append(f"seed {found.seed}{profile}{workers}, engine {found.engine}")
        if self.tried:
            lines.append(f"{number_of(self.tried, 'run')} passed before it")
        if self.shrink_runs:
            lines.append(f"shrunk in {number_of(self.shrink_runs, 'run')} to")
        rows = [("seed", str(small.seed)), ("latency", small.world.latency)]
        rows += expanded_plan(small.faults, self.small.inner.names)
        width = max(len(name) for name, _ in rows)
        lines += [f"  {name:<{width}}  {value}" for name, value in rows]
        errors = self.small.errors
        counted = [e for e in errors if self.strict or not of_a_fault(e.type, e.message)]
        for error in (counted or errors)[:1]:
            lines += ["", error.traceback.rstrip()]
        hints = self.small.inner.hints
        lines += [f"hint: {line}" for line in hints if line not in self.problems]
        if self.file:
            lines += ["", f"replay:    {self.replay}", f"timeline:  {self.timeline}"]
        return lines

    def failed(self, notes: Iterable[str] = ()) -> Failed:
        """It as an exception, with further ``notes``."""
        return Failed("\n".join([*self.lines(), *notes]), self.small)


class _OfFunction(Shrinker):
    """Leaves the number of workers alone, which the function may rely on."""

    def _scripts(self) -> Iterable[Scenario]:  # type: ignore[override]
        return iter(())


def judged(scenario: Scenario, *, strict: bool) -> tuple[Run, list[str]]:
    """Run it, and what is wrong; what it prints is in ``run.processes.printed`` alone. Errors are told otherwise."""
    out = io.StringIO()
    with campaign_settings(scenario.world.device):
        run = run_scenario(scenario, stdout=out, stderr=io.StringIO())
    run.inner.processes.printed = out.getvalue()
    return run, problems(run.inner, run.errors, strict=strict)


class Searched(NamedTuple):
    """How many runs held before the ``finding``, if there is one, and why nothing was checked in any of
    them, if so (:attr:`~squall.model.events.run.Run.unchecked`)."""

    held: int
    finding: Finding | None
    unchecked: str | None


def search(
    scenarios: Iterable[Scenario],
    *,
    strict: bool = False,
    shrink_s: float = SHRINK_S,
    found_by: str = "fuzz",
    on_run: Callable[[int], object] = lambda _: None,
    on_why: Callable[[int], object] = lambda _: None,
    on_last: Callable[[Run], object] = lambda _: None,
) -> Searched:
    """Run one scenario after the other up to the first in which something is wrong; that failure is shrunk,
    looked into and kept. ``on_run`` is told how many have run, ``on_why`` how many
    runs were made to see what decided the failure, ``on_last`` the small failure, or, if all held, the last
    run. Raises NotImplementedError if the engine does not simulate what is asked for."""
    tried, run = 0, None
    unchecked: list[str | None] = []
    for scenario in scenarios:
        run, wrong = judged(scenario, strict=strict)
        on_run(tried + 1)
        if wrong:
            _must_be_simulated(run)
            found = finding(
                run, tried, strict=strict, shrink_s=shrink_s, found_by=found_by, on_why=on_why
            )
            on_last(found.small)
            return Searched(tried, found, None)
        tried += 1
        unchecked.append(run.inner.unchecked)
    if run is not None:
        on_last(run)
    return Searched(tried, None, unchecked[-1] if unchecked and all(unchecked) else None)


def _must_be_simulated(run: Run) -> None:
    """What an engine lacks is no defect of the script, whatever the seed."""
    error = not_simulated(run.errors)
    if error is not None:
        where = f" ({error.where})" if error.where else ""
        raise NotImplementedError(error.message.strip() + where)


def finding(
    run: Run,
    tried: int = 0,
    *,
    strict: bool,
    shrink_s: float,
    found_by: str = "fuzz",
    on_why: Callable[[int], object] = lambda _: None,
) -> Finding:
    """What a failed run comes down to, kept in the store. ``shrink_s``: seconds for making it small, and as many
    for what decided it; 0: neither."""
    small, runs = shrunk(run, strict=strict, seconds=shrink_s)
    again, wrong = judged(replace(small, expected=Expected()), strict=strict)
    if not wrong:  # an engine whose runs are not all alike
        small, again = run.scenario, run
    text = "\n".join(problems(again.inner, again.errors, strict=strict))
    small = _expecting(again, strict=strict)
    kept = Keeper().keep(small, found_by=found_by, text=text)
    why = _why(small, strict=strict, seconds=shrink_s, on_run=on_why)
    if kept is not None and why is not None:
        keep_cause(kept, why)
    return Finding(
        run=run,
        tried=tried,
        small=Run(small, again.inner),
        shrink_runs=runs,
        strict=strict,
        file="" if kept is None else kept.file,
        why=why,
    )


def _why(
    small: Scenario, *, strict: bool, seconds: float, on_run: Callable[[int], object]
) -> Cause | None:
    """What decided that it fails; None if there is no time for that, or it does not fail each time."""
    if seconds <= 0:
        return None
    try:
        return cause_of(small, seconds=seconds, strict=strict, on_run=on_run)
    except NothingWrongError:
        return None


def shrunk(run: Run, *, strict: bool, seconds: float) -> tuple[Scenario, int]:
    """The smallest scenario found in which the same goes wrong, and how many were tried."""
    if seconds <= 0:
        return run.scenario, 0
    shrinker = _OfFunction(_expecting(run, strict=strict), seconds=seconds, clock=computed_s)
    with turn, outside():
        try:
            shrinker.run()
        except NotFailingError:
            return run.scenario, shrinker.tried
    if shrinker.interrupted:
        raise KeyboardInterrupt
    return shrinker.best, shrinker.tried


def _expecting(run: Run, *, strict: bool) -> Scenario:
    """The scenario, with the violation that counts as what is expected of a replay."""
    return with_expectation(
        run.scenario,
        _first_that_counts(run, strict=strict),
        outcome=run.outcome,
        digest=run.digest or None,
    )


def _first_that_counts(run: Run, *, strict: bool) -> Violation | None:
    found: list[Violation] = run.violations
    if run.inner.disturbed and not strict:
        found = [each for each in found if each.property in TOLD_ELSEWHERE]
        found = [each for each in found if not _is_excused(each)]
    return next(iter([*found, *run.violations]), None)


def _is_excused(violation: Violation) -> bool:
    """Whether it is an error that a fault may have caused."""
    return bool(raised(violation)) and of_a_fault(raised(violation), violation.seen)
