"""A failure of another engine, on the engine port: there a run takes little time, and lines and values are known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from squall.model.checks.scripts import counted
from squall.model.events.run import Run
from squall.sim.faults.draw import Profile
from squall.sim.library.errors import TOLD_ELSEWHERE, not_simulated
from squall.sim.scenario import Expected, Scenario, Script
from squall.sim.scripts.raised_error import rank_error
from squall.sim.search.draw import draw_world_of_script
from squall.sim.search.replay_with_mutant import again
from squall.sim.search.why.cause import Problems
from squall.sim.search.why.search import RUN_S
from squall.sim.stock.patience import computed_s

#: other seeds that are tried, of the scenario and of drawn latencies and orders
_SEEDS, _WORLDS = range(8), range(16)
#: a fault may do there what another does here: a message that comes twice calls no function twice
_PROFILE: Profile = "rough"


class Ported(NamedTuple):
    """A scenario that fails on the port, whether in the same way, and what is wrong on the other engine."""

    scenario: Scenario
    same: bool
    problems: list[str]


def on_port(scenario: Scenario, told: Problems, *, seconds: float) -> Ported | None:
    """The scenario, or one much like it, that fails on the port: best with the same error at the same line, or else in
    the same way, or else in another. ``seconds``: of a processor, after which no more are tried."""
    here = again(scenario, seconds=RUN_S)
    wrong = told(here)
    if not wrong:
        return None
    assert scenario.script is not None, "programs are told of their own engine"
    plain = replace(scenario, engine="port", expected=Expected())
    until = computed_s() + seconds
    wanted, wrong_here = _raised(here, scenario.script), kinds(here)
    alike: Scenario | None = None
    other: Scenario | None = None
    for ported, is_near in _tried(plain):
        if computed_s() > until:
            break
        there = again(ported, seconds=RUN_S)
        if not_simulated(there.errors) is not None:
            return None
        if not told(there):
            continue
        if not wrong_here & kinds(there):
            other = other or (ported if is_near else None)
        elif not wanted or wanted & _raised(there, scenario.script):
            return Ported(ported, True, wrong)
        else:
            alike = alike or ported
    if alike is not None:
        return Ported(alike, True, wrong)
    return None if other is None else Ported(other, False, wrong)


def _tried(plain: Scenario) -> Iterator[tuple[Scenario, bool]]:
    """What is tried, and whether it counts also if it fails in another way; what is nearest comes first."""
    for seed in dict.fromkeys((plain.seed, *_SEEDS)):
        yield replace(plain, seed=seed), True
    workers, plan = plain.workers or 0, plain.faults
    profiles: list[Profile | None] = [None, _PROFILE] if plan.goes_wrong else [None]
    for profile in profiles:
        for seed in _WORLDS:
            drawn = draw_world_of_script(seed, workers, profile, plan)
            world = replace(plain.world, latency=drawn.latency, faults=drawn.faults)
            yield replace(plain, seed=seed, world=world), False


def kinds(run: Run) -> set[tuple[str, str]]:
    """What is wrong, by kind: where a process has failed, or waits for ever, the rest may follow from that."""
    wrong = list(counted(run, run.violations)) or run.violations
    found = [
        {(each.property, each.what) for each in wrong if each.property == name}
        for name in TOLD_ELSEWHERE
    ]
    return next(filter(None, found), {(each.property, each.what) for each in wrong})


def _raised(run: Run, script: Script) -> set[tuple[str, str, int]]:
    """The errors that ended processes: their types, and where they were raised."""
    errors = [rank_error(each, script.path) for each in run.errors]
    return {(each.type, each.file, each.line) for each in errors}
