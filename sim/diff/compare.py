"""One scenario on both engines and in one process, and how the results differ.

:func:`results_of` runs it, :func:`compare_results` compares, fact by fact (sim/diff/facts.py), what torch
came to with the port that has torch's quirks (sim/diff/quirks.py). Where the port without them came to something
else, that is a difference with the name of the quirk; one that sim/diff/rules.py predicts has that of its rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from squall.model.one_process.interpreter import interpret
from squall.model.one_process.outcome import Outcome
from squall.model.program.compare import compare
from squall.model.program.program import Program
from squall.sim.diff.case import Case
from squall.sim.diff.difference import Difference
from squall.sim.diff.facts import ENDS, Facts, Place, ending, facts_of, step_of, value_of
from squall.sim.diff.quirks import QUIRKS, Quirk, applied
from squall.sim.diff.rules import with_rules
from squall.sim.diff.tensors import tensors_differ
from squall.sim.diff.traces import TRACES
from squall.sim.diff.undefined import defined, is_defined, open_from
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
    """What a scenario came to in one process, on the port with torch's quirks and in torch. ``without``: where the
    port without them came to something else, that, and the quirk that makes the difference. ``open_from``:
    the passes from which on a step is not compared (sim/diff/undefined.py)."""

    scenario: Scenario
    program: Program
    expected: Outcome
    port: Facts
    torch: Facts
    without: dict[Place, tuple[Any, str]] = field(default_factory=dict)
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
    plain, ours, theirs = on_port(scenario, ()), on_port(scenario), facts_of(program, native)
    undefined = open_from(program, ours, theirs)
    without = _without(scenario, plain, ours)
    return Results(
        scenario,
        program,
        expected,
        *defined(program, ours, theirs),
        without={place: each for place, each in without.items() if is_defined(undefined, place)},
        open_from=undefined,
        messages=sum(native.messages.values()),
        digest=native.digest,
    )


def on_port(scenario: Scenario, quirks: Sequence[Quirk] = QUIRKS) -> Facts:
    """What a scenario comes to on the port with these quirks."""
    assert scenario.program is not None
    with applied(quirks):
        return facts_of(scenario.program, ENGINES["port"].run(scenario))


def _without(scenario: Scenario, plain: Facts, ours: Facts) -> dict[Place, tuple[Any, str]]:
    """What the port comes to without the quirks, and which it is: that which alone makes that of it, if one does."""
    left = _changed(plain, ours)
    found: dict[Place, str] = {}
    names = []
    for quirk in QUIRKS:
        if not left:
            break
        alone = on_port(scenario, [quirk])
        if _changed(plain, alone):
            names.append(quirk.name)
            as_ours = [p for p in left if not _differ(p, value_of(alone, p), value_of(ours, p))]
            found.update(dict.fromkeys(as_ours, quirk.name))
            left = [place for place in left if place not in found]
    found.update(dict.fromkeys(left, names[0] if names else QUIRKS[0].name))
    return {place: (value_of(plain, place), name) for place, name in found.items()}


def _differ(place: Place, one: Any, other: Any) -> bool:
    return _complaint(place, one, other) is not None


def _changed(before: Facts, after: Facts) -> list[Place]:
    places = (place for place in {**before, **after} if place[0] not in TRACES)
    return [p for p in places if _differ(p, value_of(before, p), value_of(after, p))]


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
                {place: value for place, (value, _) in results.without.items()},
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
    ours, theirs, without = results.port, results.torch, results.without
    places = {**ours, **theirs, **without}
    for place in sorted((place for place in places if place[0] not in TRACES), key=_sort_key):
        other, rule = value_of(theirs, place), None
        one = value_of(ours, place)
        said = _complaint(place, one, other)
        if said is None and place in without:  # with the quirk the port does the same
            one, rule = without[place]
            said = _complaint(place, one, other)
        if said is not None:
            reference = _reference(results.expected, place, one)
            yield Difference(place, one, other, said, reference, rule)


def _complaint(place: Place, one: Any, other: Any) -> str | None:
    """How two facts differ, as far as that has to be said; None if they do not."""
    if isinstance(one, Tensor) or isinstance(other, Tensor):
        return tensors_differ(place, one, other)
    if place == ("hang",):
        same = (one == ENDS) == (other == ENDS)
    else:
        same = one == other or (place[0] == "story" and one.strip() == other.strip())
    return None if same else ""


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
