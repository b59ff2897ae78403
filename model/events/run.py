"""A finished run of a program, as the checks see it, and what a check finds.

A run is what was to happen (the program and its single-process outcome), what came of it (the
outcome on workers) and how (the events). Checks read these and nothing else.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from squall.model.one_process.flow import Forecast, forecast
from squall.model.one_process.outcome import Outcome
from squall.model.one_process.recovery import Recovery
from squall.model.program.compare import EXACT, Tolerance, coarsest
from squall.model.program.dtypes import DTYPES
from squall.model.program.program import Program
from squall.real.tracing import EventType

#: time in seconds, worker, task, type, values; the event's number is its place in the list
Record = tuple[float, int, int, EventType, tuple[Any, ...]]


class Violation(NamedTuple):
    """One thing that should hold and does not.

    ``what`` names the kind of thing that broke, without ids, so that equal ones can be counted.
    ``events`` are the numbers of the events that show it.
    """

    property: str
    what: str
    expected: str
    seen: str
    worker: int | None = None
    time_s: float | None = None
    events: tuple[int, ...] = ()

    def __str__(self) -> str:
        where = "" if self.worker is None else f" on worker {self.worker}"
        when = "" if self.time_s is None else f" at t={self.time_s:.6f}"
        cited = "".join(f" #{number}" for number in self.events)
        text = f"{self.property}: {self.what}{where}{when}: expected {self.expected}, "
        return f"{text}seen {self.seen}" + (f" (events{cited})" if cited else "")

    def to_json(self) -> dict[str, Any]:
        return {**self._asdict(), "events": list(self.events)}


@dataclass
class Run:
    """A finished run.

    ``records`` are its events. ``expected`` and ``got`` are the outcomes in one process and on
    workers; without a program, only what the events tell can be checked. ``ended_s`` is the
    virtual time at the end, ``waits`` has a line for each task that waited when nothing could
    happen any more, ``waiting`` the same for the wait-for graph (model/events/waiting.py), ``crash`` is an error that left the run itself, and ``digests`` are those of
    this run and of repetitions of it. ``divergence`` says where a repetition parted from it,
    ``recovery`` is the training after the faults of a run that had any.
    """

    records: Sequence[Record]
    program: Program | None = None
    expected: Outcome | None = None
    got: Outcome | None = None
    ended_s: float = 0.0
    waits: list[str] = field(default_factory=list)
    waiting: Sequence[Any] = ()
    crash: str | None = None
    digests: tuple[str, ...] = ()
    divergence: str | None = None
    recovery: Recovery | None = None
    #: the exceptions (model/checks/exceptions.py) that property ``rrefs`` had to make
    excuses: tuple[str, ...] = ()
    _forecasts: dict[tuple[int, int], Forecast] = field(default_factory=dict)

    @cached_property
    def _numbers(self) -> dict[EventType, list[int]]:
        found: defaultdict[EventType, list[int]] = defaultdict(list)
        for number, record in enumerate(self.records):
            found[record[3]].append(number)
        return found

    def of(self, *types: EventType) -> list[int]:
        """The numbers of the events of these types, in order."""
        numbers = self._numbers
        if len(types) == 1:
            return numbers.get(types[0], [])
        # Sorting what is made of a few sorted parts is linear.
        return sorted([n for type in types for n in numbers.get(type, ())])

    def violation(
        self, property: str, what: str, expected: object, seen: object, *events: int
    ) -> Violation:
        """A violation that shows at the last of ``events``."""
        if not events:
            return Violation(property, what, str(expected), str(seen))
        time_s, worker, *_ = self.records[events[-1]]
        return Violation(property, what, str(expected), str(seen), worker, time_s, events)

    def forecast(self, trainer: int, step: int) -> Forecast:
        """What the program itself says of a step, worked out once."""
        key = (trainer, step)
        known = self._forecasts.get(key)
        if known is None:
            assert self.program is not None, "only a program's steps can be forecast"
            known = self._forecasts[key] = forecast(self.program, trainer, step)
        return known

    @cached_property
    def tolerance(self) -> Tolerance:
        """How far values may be from those of one process: not at all in mode exact, else as
        far as the least precise dtype in the program allows."""
        program = self.program
        if program is None or program.mode == "exact":
            return EXACT
        names = {leaf.dtype for leaf in program.leaves}
        names.update(op.dtype for _, _, step in program.steps for op in step.ops)
        return coarsest(DTYPES[name] for name in names)

    @cached_property
    def hangs(self) -> bool:
        """Whether some step is not to end."""
        return self.program is not None and any(
            self.forecast(trainer, number).unfed for trainer, number, _ in self.program.steps
        )

    @property
    def stuck(self) -> bool:
        """Whether somebody waited when nothing could happen any more."""
        return bool(self.waits)


Check = Callable[[Run], Iterable[Violation]]
#: what a check reads is known of runs on every engine, or only of those on the port, whose workers
#: report their events
ALL_ENGINES = frozenset({"port", "torch"})
PORT_ONLY = frozenset({"port"})


class Property(NamedTuple):
    """Something that must hold for every run: a name, what it says, its check, and the engines
    whose runs it judges."""

    name: str
    description: str
    check: Check
    engines: frozenset[str] = ALL_ENGINES


def named(name: str, *, engines: frozenset[str] = ALL_ENGINES) -> Callable[[Check], Property]:
    """Makes a property of a check, whose docstring says what must hold."""

    def decorate(check: Check) -> Property:
        return Property(name, " ".join((inspect.getdoc(check) or "").split()), check, engines)

    return decorate
