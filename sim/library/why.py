"""``squall.why``: what decided that a run fails."""

from __future__ import annotations

from collections.abc import Callable

from squall.model.events.run import Run as FinishedRun
from squall.sim.library.errors import problems, rank_error
from squall.sim.library.hypotheses import outside
from squall.sim.library.run import turn
from squall.sim.scenario import Scenario
from squall.sim.search.why.cause import Problems, Why
from squall.sim.search.why.cause import why as find

#: real seconds that the search may take, unless somebody says otherwise
WHY_S = 20.0


def _problems(scenario: Scenario, *, strict: bool) -> Problems:
    """What says what is wrong with a run of the scenario."""
    script = scenario.script
    if script is None:
        return lambda run: [str(each) for each in run.violations]

    def found(run: FinishedRun) -> list[str]:
        errors = [rank_error(error, script.path) for error in run.errors]
        return problems(run, errors, strict=strict)

    return found


def cause_of(
    scenario: Scenario,
    *,
    seconds: float = WHY_S,
    strict: bool = False,
    on_run: Callable[[int], object] = lambda _: None,
) -> Why:
    """What decided that the scenario fails. Raises ValueError if it does not."""
    with turn, outside():
        return find(scenario, _problems(scenario, strict=strict), seconds=seconds, on_run=on_run)
