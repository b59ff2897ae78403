"""``squall.why``: what decided that a run fails."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from squall.model.events.run import Run as FinishedRun
from squall.sim.library.errors import problems, rank_error
from squall.sim.library.hypotheses import outside
from squall.sim.library.ported import on_port
from squall.sim.library.run import turn
from squall.sim.scenario import Scenario
from squall.sim.search.why.cause import Problems
from squall.sim.search.why.cause import why as find
from squall.sim.search.why.told import Why
from squall.sim.world.schedule import FIFO

#: seconds of a processor that the search may take, unless somebody says otherwise
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
    """What decided that the scenario fails. Raises ValueError if it does not.

    On the engine port, where a script of another engine fails, too: there runs take little time, and lines
    and values are known.
    """
    with turn, outside(), _quiet():
        told = _problems(scenario, strict=strict)
        if scenario.engine != "port" and scenario.script is not None:
            ported = on_port(scenario, told, seconds=seconds / 2)
            if ported is not None:
                found = find(ported, told, seconds=seconds, on_run=on_run)
                same = replace(ported.faults, schedule=FIFO) == replace(
                    scenario.faults, schedule=FIFO
                )
                under = "" if same else " under other faults"
                found.said.append(
                    f"(Told of the engine port, where it fails{under}: {found.problems[0]})"
                )
                return found
        return find(scenario, told, seconds=seconds, on_run=on_run)


@contextmanager
def _quiet() -> Iterator[None]:
    """PyTorch's launcher does not log what it does to the processes of each run."""
    logger = logging.getLogger("torch.multiprocessing.spawn")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
