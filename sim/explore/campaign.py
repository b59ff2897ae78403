"""Explores scenarios, without faults and with one at every place, and puts failures down.

for part in parts(scenario, How(), Budget(executions=10_000)):
    print(part.name, part.explored.complete)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from squall.model.program.variants import under_faults
from squall.sim.explore.counterexample import counterexample, plain
from squall.sim.explore.execution import How
from squall.sim.explore.faults import ends, faults_at, places
from squall.sim.explore.programs import ProgramSubject
from squall.sim.explore.scripts import ScriptSubject
from squall.sim.explore.search import Budget, explore
from squall.sim.explore.tree import Explored, Found
from squall.sim.faults.fault import Fault
from squall.sim.scenario import Scenario
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.world import interrupts

OnExecution = Callable[[Explored], object]


@dataclass
class ExploredPart:
    """One exploration: of a scenario as it is, or with one fault, which ``fault`` says.

    ``explored``: all that it has come to; ``since``: to go on with, if it is not exhausted.
    """

    scenario: Scenario
    how: How
    explored: Explored
    since: Explored
    fault: str = ""

    def counterexamples(self) -> Iterator[tuple[Found, Scenario]]:
        """Of each kind of thing that did not hold, the first, and a scenario that shows it."""
        for found in self.explored.found.values():
            with campaign_settings(self.scenario.world.device):
                small = counterexample(
                    self.scenario,
                    self.how,
                    found.violation,
                    found.choices,
                    subject_of(self.scenario),
                )
            yield found, small


def parts(
    scenario: Scenario,
    how: How,
    budget: Budget,
    *,
    one_fault: bool = False,
    since: Explored | None = None,
    jobs: int = 1,
    on_execution: OnExecution = lambda _: None,
) -> Iterator[ExploredPart]:
    """Explore the program or script of a scenario in its world, and then, with ``one_fault``, once more with
    each fault that can happen to each of its messages; ``budget`` is that of each exploration.
    ``since``: go on with the first one. ``jobs`` processes share each.

    An interrupt ends it after the part that was interrupted. For the main thread. Raises
    :class:`~squall.sim.world.controlled_time.GrainError`.
    """
    scenario = plain(scenario)
    if one_fault:
        scenario = for_faults(scenario)  # the same program throughout
    whole = _explored(scenario, how, budget, "", jobs, on_execution, since)
    yield whole
    if one_fault and not whole.explored.interrupted:
        for words, wrong in with_one_fault(scenario, whole.explored):
            part = _explored(wrong, how, budget, words, jobs, on_execution)
            yield part
            if part.explored.interrupted:
                return


def for_faults(scenario: Scenario) -> Scenario:
    """The scenario as it can run with a fault: without stories, which then come to nothing that
    could be told."""
    if scenario.program is None:
        return scenario
    scenario = replace(scenario, work=under_faults(scenario.program))
    return scenario.in_world(shut_down_early=False, skip_handshakes=True)


def with_one_fault(scenario: Scenario, explored: Explored) -> Iterator[tuple[str, Scenario]]:
    """The scenario with each fault that can happen: to each message that was sent as it was
    ``explored``, and to each worker; with words for it."""
    faults: list[tuple[str, Fault]] = [
        each for place in places(explored.sent) for each in faults_at(place)
    ]
    faults += ends(_workers(scenario, explored))
    for words, fault in faults:
        items = [item for _, _, item in scenario.faults.items()]
        yield words, scenario.in_world(faults=scenario.faults.with_items([*items, fault]))


def _workers(scenario: Scenario, explored: Explored) -> int:
    """How many there are; of a script those between which messages were sent."""
    if scenario.program is not None:
        return scenario.program.workers
    return 1 + max((max(src, dst) for _, src, dst in explored.sent), default=-1)


def subject_of(scenario: Scenario) -> ProgramSubject | ScriptSubject:
    """What runs the program or the script of a scenario. Raises ValueError for faults that cannot be
    explored."""
    return ScriptSubject(scenario) if scenario.program is None else ProgramSubject(scenario)


def _explored(
    scenario: Scenario,
    how: How,
    budget: Budget,
    fault: str,
    jobs: int,
    on_execution: OnExecution,
    since: Explored | None = None,
) -> ExploredPart:
    subject = subject_of(scenario)
    with interrupts.heard(), campaign_settings(scenario.world.device):
        explored = explore(
            subject, how, budget=budget, since=since, jobs=jobs, on_execution=on_execution
        )
    return ExploredPart(scenario, how, explored.with_all_ahead(), explored, fault)
