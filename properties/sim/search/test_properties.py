"""All properties over whatever Hypothesis thinks of: the programs of campaigns, in any world.

The smallest scenario that fails is kept as a file in properties/corpus/, which is played first in
every later run of the tests.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from squall.model.checks.registry import check
from squall.model.events.run import Violation
from squall.model.generate.profiles import Limits
from squall.model.one_process.interpreter import interpret
from squall.model.program.program import Program
from squall.properties.strategies import programs
from squall.properties.support.paths import CORPUS
from squall.properties.support.replay_lines import Replayable
from squall.sim.faults.plan import Order, Plan, Schedule
from squall.sim.scenario import Expected, Scenario, World
from squall.sim.scenarios.file import dump_scenario, load_scenario, name_of
from squall.sim.scenarios.play import play
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.draw import may_leave_early
from squall.sim.search.mutants.mutant import Mutant
from squall.sim.search.mutants.registry import MUTANTS

LATENCIES = ("0", "constant:0.001", "lognormal:0.001:0.5", "uniform:0.0001:0.01")
ORDERS: tuple[Order, ...] = ("fifo", "random")
assert set(ORDERS) <= set(get_args(Order))


@st.composite
def scenarios(draw: Callable[[SearchStrategy[Any]], Any], limits: Limits | None = None) -> Scenario:
    """A program and the world it runs in; the simplest is fifo without latency."""
    program = draw(programs(limits))
    return Scenario(
        seed=draw(st.integers(0, 99)),
        work=program,
        world=World(
            latency=draw(st.sampled_from(LATENCIES)),
            faults=Plan(schedule=Schedule(order=draw(st.sampled_from(ORDERS)))),
            shut_down_early=draw(st.booleans()) and may_leave_early(program),
        ),
    )


class Keeper:
    """Plays scenarios, and remembers the last one that failed: with Hypothesis the smallest."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.last: tuple[Scenario, list[Violation]] | None = None

    def violations(self, scenario: Scenario) -> list[Violation]:
        with campaign_settings():
            found = check(play(scenario))
        if found:
            self.last = scenario, found
        return found

    def write(self) -> Path | None:
        """Write down what failed, if anything did."""
        if self.last is None:
            return None
        scenario, found = self.last
        expected = Expected(outcome="failed", property=found[0].property, what=found[0].what)
        saved = replace(scenario, expected=expected, note="found by Hypothesis")
        self.folder.mkdir(exist_ok=True)
        path = self.folder / f"{found[0].property}-{name_of(saved)}.json"
        path.write_text(dump_scenario(saved) + "\n", encoding="utf-8")
        return path


@pytest.fixture(scope="module")
def keeper() -> Iterator[Keeper]:
    keeper = Keeper(CORPUS)
    yield keeper
    keeper.write()


# The note is that of the last example, which is the one to be seen again.
@settings(
    suppress_health_check=[*settings().suppress_health_check, HealthCheck.function_scoped_fixture]
)
@pytest.mark.timeout(1200)
@given(scenario=scenarios())
def test_every_property_holds(keeper: Keeper, replayable: Replayable, scenario: Scenario) -> None:
    assert [str(each) for each in keeper.violations(replayable(scenario))] == []


# -- what becomes of a bug ------------------------------------------------------------------------

# Without Phase.explain, for which every line that runs would be traced from the first failure on, and
# the lines of each example kept.
QUICKLY = settings(
    max_examples=400,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
    phases=[Phase.generate, Phase.shrink],
)


def test_the_smallest_failing_scenario_is_kept(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path)
    with MUTANTS["release-only-here"].apply():
        find(
            scenarios(), lambda each: bool(keeper.violations(each)), settings=QUICKLY,
            random=random.Random(3),
        )  # fmt: skip
        path = keeper.write()
        assert path is not None and path.name.startswith(("contexts-", "messages-"))
        kept = load_scenario(path)
        assert Keeper(tmp_path).violations(kept)
    assert not Keeper(tmp_path).violations(kept)
    # The bug needs one call, perhaps of a worker to itself, so nothing smaller fails.
    assert kept.program.workers <= 2 and nodes(kept.program) <= 4


def nodes(program: Program) -> int:
    """Nodes of the autograd graphs of a program's passes, in one process."""
    steps = interpret(program).steps.values()
    return sum(len(graph.nodes) for step in steps for graph in step.graphs)


@pytest.mark.deep("a minute of shrinking; the corpus has the smallest program")
def test_a_planted_dependency_bug_shrinks_to_its_smallest_program() -> None:
    """By way of the engine itself: what shows this one is an operation with four edges to it."""
    bug = Mutant(
        name="fourth-dependency-not-counted",
        place="autograd.dist_engine:DistEngine.compute_dependencies",
        old="                dependencies[following] += 1\n",
        new="                if dependencies[following] < 3 or KINDS[type(following)] >= RECV:\n"
        "                    dependencies[following] += 1\n",
        wrong="a fourth edge to an operation is not counted",
    )
    keeper = Keeper(CORPUS)

    def fails(scenario: Scenario) -> bool:
        return any(each.property == "dependencies" for each in keeper.violations(scenario))

    # From some starts, 3 is one, Hypothesis makes such slow progress that it gives up.
    with bug.apply():
        found = find(
            scenarios(Limits(trainers=1, steps=1, mixed=False, unused=False, faults=False, stories=False,
                             sleeps=False, acts=False, beside=False, groups=False)), fails,
            settings=QUICKLY, random=random.Random(1),
        )  # fmt: skip
    assert (found.program.workers, len(found.program.leaves)) == (1, 1)
    ((_, _, step),) = found.program.steps
    # The leaf, what four edges lead to, what they lead from, and the sum.
    assert len(found.program.leaves) + len(step.ops) <= 7, step.ops
