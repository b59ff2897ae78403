"""Small worlds with a bug planted, explored until something does not hold.

Each bug gets a process of its own, which tries ways as :mod:`squall.sim.explore.shortest` says, and
tells of each before it begins it: what hangs or dies there is contained. What fails without the bug, too,
says nothing about it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from types import CodeType
from typing import Any, NamedTuple

from squall.model.events.run import Violation
from squall.sim.explore.shortest import Names, Shortest, Tried, WorldCase
from squall.sim.explore.worlds import WORLDS
from squall.sim.scenario import Expected, Scenario
from squall.sim.scenarios.file import dump_scenario
from squall.sim.scenarios.patch import PatchError
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.mutants.bounds import BOUNDS
from squall.sim.search.mutants.clean_process import CleanProcess
from squall.sim.search.mutants.mutant import Mutant
from squall.sim.search.mutants.own_program import own_program
from squall.sim.search.mutants.result import CRASH, HANG
from squall.sim.world import interrupts
from squall.sim.world.sandbox import Contained

#: letters of what a bug needs (:data:`~squall.sim.search.mutants.mutant.SCHEDULES`) that an order
#: of a small world, or one fault in it, may bring about
EXPLORED = frozenset("RTLEXGQ")
#: those of them that orders bring about
ORDERS = frozenset("RTGQ")
#: real seconds that one run may take before it counts as a hang
_HANG_S = 20.0
_LOOK_S = 0.25


class Counterexample(NamedTuple):
    """How a bug shows: what did not hold, in which case, and in which order."""

    violation: Violation
    case: WorldCase
    names: Names
    shortest: bool

    @property
    def length(self) -> int:
        """Names that go first, and one more for a fault."""
        return len(self.names) + bool(self.case.fault)

    def scenario(self, mutant: str) -> Scenario:
        """What ``squall replay`` plays again, with the bug planted."""
        scenario = self.case.ordered(self.names)
        expected = Expected(
            property=self.violation.property, what=self.violation.what, mutant=mutant
        )
        return Scenario(work=scenario.work, world=scenario.world, expected=expected)


@dataclass
class Exploration:
    """What came of one bug. ``executions`` and real ``seconds`` until it was found, or the time was
    up; ``length``: that of the ways that were tried last."""

    mutant: Mutant
    executions: int = 0
    seconds: float = 0.0
    length: int = 0
    found: Counterexample | None = None
    problem: str | None = None

    @property
    def bound(self) -> str | None:
        """What would be needed to find it, if it was not."""
        if self.found is not None:
            return None
        return BOUNDS.get(self.mutant.name) or self.mutant.unseen or "not known"

    def to_json(self) -> dict[str, Any]:
        """Its keys are in docs/json.md."""
        found = self.found
        return {
            "name": self.mutant.name,
            "needs": self.mutant.needs,
            "expected": self.mutant.expected,
            "found": found is not None,
            "executions": self.executions,
            "seconds": round(self.seconds, 3),
            "problem": self.problem,
            "bound": self.bound,
            "world": None if found is None else found.case.world,
            "grain": None if found is None else found.case.grain,
            "fault": None if found is None else found.case.fault or None,
            "property": None if found is None else found.violation.property,
            "what": None if found is None else found.violation.what,
            "length": None if found is None else found.length,
            "chosen": None if found is None else list(found.names),
            "shortest": None if found is None else found.shortest,
            "scenario": None
            if found is None
            else json.loads(dump_scenario(found.scenario(self.mutant.name))),
        }


def explorable(mutants: Iterable[Mutant]) -> list[Mutant]:
    """Those that an order, or one fault, may bring about."""
    return [mutant for mutant in mutants if EXPLORED & set(mutant.needs)]


def explore_mutants(
    mutants: Iterable[Mutant],
    seconds: float,
    *,
    jobs: int = 1,
    on_result: Callable[[Exploration], object] = lambda _: None,
) -> list[Exploration]:
    """Explore small worlds with each bug for at most so many real seconds; results in their order.

    ``on_result`` is called as each ends. An interrupt ends all, and those that have ended are
    returned. For the main thread.
    """
    chosen = list(mutants)
    results: dict[str, Exploration] = {}
    explorations = _explorations(chosen, seconds, jobs)
    with (
        interrupts.heard(),
        contextlib.suppress(KeyboardInterrupt),
        contextlib.closing(explorations),
    ):
        for result in explorations:
            results[result.mutant.name] = result
            with interrupts.deferred():
                on_result(result)
            interrupts.check()
    return [results[mutant.name] for mutant in chosen if mutant.name in results]


class _At(NamedTuple):
    """A run is about to begin, of the case of the one before if ``case`` is None."""

    case: WorldCase | None
    names: Names


class _Found(NamedTuple):
    """One has failed."""

    counterexample: Counterexample


class _Copy:
    """A process with one bug planted, as its parent sees it."""

    def __init__(self, mutant: Mutant, code: CodeType, seconds: float) -> None:
        self.result = Exploration(mutant)
        self._seconds = seconds
        self._began = self._heard = time.monotonic()
        self._case: WorldCase | None = None
        self._names: Names = ()
        self._ended = False
        self.copy = Contained(_attack, mutant, code, seconds)

    def receive(self) -> None:
        self._heard = time.monotonic()
        connection = self.copy.connection
        try:
            while connection.poll():
                said = connection.recv()
                if isinstance(said, _At):
                    self._case = case = said.case or self._case
                    self._names = said.names
                    self.result.executions += 1
                    self.result.length = len(said.names) + bool(case and case.fault)
                elif isinstance(said, _Found):
                    self.result.found = said.counterexample
                    self._ended = True
                else:
                    self.result.problem = str(said)
                    self._ended = True
        except (EOFError, ConnectionError):
            if not self._ended and self._case is not None and self.copy.wait() != 0:
                self._showed(CRASH, "the process died")
            self._ended = True

    def over(self) -> bool:
        """Whether there is nothing more to expect of it."""
        now = time.monotonic()
        self.result.seconds = self._heard - self._began
        if not self._ended and now - self._heard > _HANG_S:
            self._showed(HANG, f"a run took more than {_HANG_S:g} s")
            self._ended = True
        return self._ended

    def _showed(self, how: str, what: str) -> None:
        if self._case is not None:
            violation = Violation(how, what, "a verdict", "none")
            self.result.found = Counterexample(violation, self._case, self._names, shortest=False)


def _explorations(
    mutants: list[Mutant], seconds: float, jobs: int
) -> Generator[Exploration, None, None]:
    waiting = []
    for mutant in mutants:
        try:
            waiting.append((mutant, mutant.code()))
        except PatchError as error:
            yield Exploration(mutant, problem=str(error))
    waiting.reverse()
    running: dict[Connection, _Copy] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                copy = _Copy(*waiting.pop(), seconds)
                running[copy.copy.connection] = copy
            interrupts.check()
            for connection in wait(list(running), _LOOK_S):
                assert isinstance(connection, Connection)
                running[connection].receive()
            for connection, copy in list(running.items()):
                if copy.over():
                    del running[connection]
                    copy.copy.end()
                    yield copy.result
    finally:
        for copy in running.values():
            copy.copy.end()


class _OutOfTimeError(Exception):
    """The seconds of a bug are spent."""


def _attack(connection: Connection, mutant: Mutant, code: CodeType, seconds: float) -> None:
    """What the process does."""
    logging.disable(logging.CRITICAL)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    try:
        with CleanProcess() as clean_process, campaign_settings():
            _try(connection, mutant, code, seconds, clean_process)
    except Exception as error:
        connection.send(f"{type(error).__name__}: {error}")


def _try(
    connection: Connection,
    mutant: Mutant,
    code: CodeType,
    seconds: float,
    clean_process: CleanProcess,
) -> None:
    until = time.monotonic() + seconds
    worlds = [*WORLDS, *own_program(mutant.name)]
    longer = bool(ORDERS & set(mutant.needs)) or len(worlds) > len(WORLDS)
    searched = Shortest(worlds, faults_first=mutant.needs_faults, longer=longer)
    last: WorldCase | None = None

    def before(case: WorldCase, names: Names) -> None:
        nonlocal last
        if time.monotonic() > until:
            raise _OutOfTimeError
        connection.send(_At(None if case is last else case, names))
        last = case

    with mutant.apply(code), contextlib.suppress(_OutOfTimeError):
        for tried in searched.tries(before):
            if tried.violations and clean_process.holds(tried.case.ordered(tried.names)):
                connection.send(_Found(_counterexample(tried)))
                return


def _counterexample(tried: Tried) -> Counterexample:
    return Counterexample(tried.violations[0], tried.case, tried.names, tried.shortest)
