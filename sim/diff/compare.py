"""One scenario on both engines and in one process, and how the results differ.

:func:`results_of` runs it, :func:`compare_results` compares, fact by fact (sim/diff/facts.py). A
difference that sim/diff/rules.py predicts carries the name of its rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from squall.model.one_process.interpreter import interpret
from squall.model.one_process.outcome import Outcome
from squall.model.program.compare import compare
from squall.model.program.program import Program
from squall.sim.diff.case import Case
from squall.sim.diff.difference import Difference
from squall.sim.diff.facts import Facts, Place, ending, facts_of, step_of, value_of
from squall.sim.diff.rules import with_rules
from squall.sim.diff.tensors import tensors_differ
from squall.sim.diff.traces import TRACES
from squall.sim.diff.undefined import defined, open_from
from squall.sim.faults.plan import Schedule
from squall.sim.scenario import Scenario
from squall.sim.scenarios.engines import ENGINES

#: the order in which differences are told
_ORDER = (
    "death",
    "torn",
    "outcome",
    "first error",
    "failed",
    "root",
    "passes",
    "gradient",
    "story",
    "beside",
    "kept",
    "gather",
    "leaf",
    "hang",
    "left",
    "requests",
    "refused",
    "unanswered",
    "wrapped",
    "replies",
)


@dataclass
class Results:
    """What a scenario came to in one process, on the port and in torch. ``open_from``: the passes
    from which on a step is not compared (sim/diff/undefined.py)."""

    scenario: Scenario
    program: Program
    expected: Outcome
    port: Facts
    torch: Facts
    open_from: dict[tuple[int, int], int] = field(default_factory=dict)
    messages: int = 0
    digest: str = ""


@dataclass
class Comparison:
    """What came of a scenario on both engines."""

    scenario: Scenario
    differences: list[Difference] = field(default_factory=list)
    #: whether passes after one that failed were not compared
    partly: bool = False
    messages: int = 0
    digest: str = ""

    @property
    def unknown(self) -> list[Difference]:
        return [each for each in self.differences if each.rule is None]

    @property
    def rules(self) -> list[str]:
        """The rules that apply, each once."""
        return list(dict.fromkeys(each.rule for each in self.differences if each.rule is not None))


def results_of(scenario: Scenario) -> Results:
    """Run the scenario of a program on both engines, and in one process.

    Tasks run first come, first served on both: the engine ``torch`` cannot follow another order.
    """
    program = scenario.program
    assert program is not None, "scripts are compared by what they print"
    plan = replace(scenario.faults, schedule=Schedule())
    scenario = scenario.in_world(faults=plan, skip_handshakes=False)
    expected = interpret(program)
    native = ENGINES["torch"].run(scenario)
    port = ENGINES["port"].run(scenario)
    ours, theirs = facts_of(program, port), facts_of(program, native)
    return Results(
        scenario,
        program,
        expected,
        *defined(program, ours, theirs),
        open_from=open_from(program, ours, theirs),
        messages=sum(native.messages.values()),
        digest=native.digest,
    )


def compare_engines(scenario: Scenario) -> Comparison:
    """Run a scenario on both engines, and compare."""
    return compare_results(results_of(scenario))


def compare_results(results: Results) -> Comparison:
    """How the results differ, each difference with the rule that predicts it, if there is one."""
    found = list(_differences(results))
    return Comparison(
        results.scenario,
        with_rules(
            Case(
                results.program,
                results.expected,
                results.port,
                results.torch,
                results.open_from,
                world=results.scenario.world,
            ),
            found,
        ),
        partly=bool(results.open_from),
        messages=results.messages,
        digest=results.digest,
    )


def _differences(results: Results) -> Iterator[Difference]:
    ours, theirs = results.port, results.torch
    places = {**ours, **theirs}
    for place in sorted((place for place in places if place[0] not in TRACES), key=_sort_key):
        one, other = value_of(ours, place), value_of(theirs, place)
        said = ""
        if isinstance(one, Tensor) or isinstance(other, Tensor):
            complaint = tensors_differ(place, one, other)
            if complaint is None:
                continue
            said = complaint
        elif place == ("hang",):
            if (one == "ends") == (other == "ends"):
                continue
        elif one == other or (place[0] == "story" and one.strip() == other.strip()):
            continue
        yield Difference(place, one, other, said, _reference(results.expected, place, one))


def _sort_key(place: Place) -> tuple[Any, ...]:
    step = step_of(place)
    return (_ORDER.index(place[0]), step or (-1, -1), repr(place))


def _reference(expected: Outcome, place: Place, ours: Any) -> str:
    """What one process says, where the engines differ."""
    key = step_of(place)
    if place[0] == "outcome" and key is not None:
        return ending(expected.steps[key])
    if place[0] == "gradient" and key is not None and isinstance(ours, Tensor):
        passes = expected.steps[key].passes
        reference = passes[place[3]].get(place[4]) if place[3] < len(passes) else None
        same = reference is not None and compare(ours, reference).complaint is None
        return "as the port" if same else "another value than the port's"
    return ""
