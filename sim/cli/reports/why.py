"""What ``squall why`` says, for people and for machines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from squall.model.events.names import number_of
from squall.sim.cli.bar import Bar
from squall.sim.library.campaign import Searched
from squall.sim.scenario import Scenario
from squall.sim.search.draw import expanded_plan
from squall.sim.search.why.cause import NotFailingError
from squall.sim.search.why.told import Why, lines

#: lines that say what is wrong
_PROBLEMS = 12

__all__ = ["NotFailingError", "looking", "no_why_json", "print_why", "why_json"]


@contextmanager
def looking() -> Iterator[Callable[[int], object]]:
    """Shows how many runs were made, once there is one."""
    with Bar("what decided it{task.fields[runs]}", runs="", visible=False) as bar:
        yield lambda runs: bar.say(runs=f": {number_of(runs, 'run')}", visible=True)


def print_why(why: Why, scenario: Scenario) -> None:
    """What fails, why, and in which world."""
    wrong = why.problems[:_PROBLEMS]
    if len(why.problems) > _PROBLEMS:
        wrong.append(f"and {len(why.problems) - _PROBLEMS} more (--json has them all)")
    print("\n".join([*wrong, "", *lines(why), "", *_world(why, scenario)]))


def _world(why: Why, scenario: Scenario) -> list[str]:
    rows = [("seed", str(scenario.seed)), ("latency", scenario.world.latency)]
    rows += expanded_plan(scenario.faults, why.shown[0].run.names if why.shown else {})
    width = max(len(name) for name, _ in rows)
    return [f"  {name:<{width}}  {value}" for name, value in rows]


def no_why_json(searched: Searched) -> str:
    """The same where no run fails."""
    unchecked = searched.unchecked
    told = {"checked": unchecked is None, "unchecked": unchecked}
    return json.dumps({"verdict": None, "runs": searched.held, **told})


def why_json(why: Why, scenario: Scenario) -> str:
    """The object of ``squall why --json``; its keys are in docs/json.md."""
    faults = [{"item": name, "fault": said} for name, said in expanded_plan(scenario.faults)]
    world = {"seed": scenario.seed, "latency": scenario.world.latency, "plan": faults}
    return json.dumps({**why.to_json(), "scenario": world}, allow_nan=False)
