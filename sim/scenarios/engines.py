"""The engines that a scenario can name.

    run = ENGINES[scenario.engine].run(scenario)

Each is a module of sim/engines/. Programs and scripts run on all of them, and all give a
:class:`~squall.model.events.run.Run`. What an engine cannot do with a scenario it says beforehand
(:meth:`Engine.left_out`) and in the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Protocol, TextIO

from squall.model.events.run import Run
from squall.sim.faults.plan import Plan
from squall.sim.names import ENGINE_NAMES
from squall.sim.scenario import Scenario


class Engine(Protocol):
    """What runs a scenario."""

    name: str
    #: whether the workers are in this process, which then does all the work
    in_this_process: bool

    def run(
        self, scenario: Scenario, *, stdout: TextIO | None = None, stderr: TextIO | None = None
    ) -> Run:
        """Run it to its end. What a script prints goes to ``stdout`` and ``stderr``.

        What no program should cause is in :attr:`Run.crash`. Raises ValueError or OSError for what
        cannot be run.
        """

    def ready(self, told: Callable[[str], object] | None = None) -> None:
        """See that it can run, which is no part of the time of a run; ``told`` is given a line if that
        takes a while, a terminal if there is none.

        Raises :class:`squall.real.native.build.Unavailable` where it cannot be had.
        """

    def begin(self, scenario: Scenario) -> None:
        """Begin what a run waits for that can go on by itself, while the caller imports the rest. Raises
        :class:`squall.real.native.build.Unavailable` where that cannot be had."""

    def left_out(self, plan: Plan) -> list[str]:
        """What of a plan cannot be done, in a program or in a script: ``group[position]: kind``."""

    def kinds_left_out(self) -> list[str]:
        """Kinds of faults that can never be done: ``group: kind``."""


class _Engines(Mapping[str, Engine]):
    """All of them by their names. What runs on one does not wait for the import of the others."""

    def __init__(self) -> None:
        self._imported: dict[str, Engine] = {}

    def __getitem__(self, name: str) -> Engine:
        engine = self._imported.get(name)
        if engine is None:
            if name not in ENGINE_NAMES:
                raise KeyError(name)
            engine = self._imported[name] = import_module(f"squall.sim.engines.{name}").ENGINE
        return engine

    def __iter__(self) -> Iterator[str]:
        return iter(ENGINE_NAMES)

    def __len__(self) -> int:
        return len(ENGINE_NAMES)


ENGINES = _Engines()
