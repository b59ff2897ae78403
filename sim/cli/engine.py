"""The engine that a command line names: whether it can be had, and what it cannot do."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from squall.sim.cli.bad_input import BadInput
from squall.sim.names import EngineName

if TYPE_CHECKING:
    from squall.sim.scenario import Scenario


def ready(engine: EngineName) -> None:
    """See that the engine can run, which may take a while the first time and is told then.

    Raises :class:`BadInput` where it cannot be had, which says what to install.
    """
    from squall.real.native.build import Unavailable
    from squall.sim.scenarios.engines import ENGINES

    def told(text: str) -> None:
        print(f"squall: {text}", file=sys.stderr, flush=True)

    try:
        ENGINES[engine].ready(told)
    except Unavailable as error:
        raise BadInput("--engine", engine, str(error)) from None


def begin(scenario: Scenario) -> None:
    """Begin what its run waits for, while this process imports what it needs itself."""
    from squall.sim.scenarios.engines import ENGINES

    ENGINES[scenario.engine].begin(scenario)


def left_out(scenario: Scenario) -> list[str]:
    """Items of the fault plan that the engine cannot do."""
    from squall.sim.scenarios.engines import ENGINES

    engine = ENGINES[scenario.engine]
    return engine.left_out(scenario.faults)


def tell_left_out(engine: EngineName, items: list[str]) -> None:
    """Say on standard error what will not happen."""
    for line in items:
        typer.echo(f"squall: the engine {engine} leaves out {line}", err=True)
