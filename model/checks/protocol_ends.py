"""What both models of the protocol ask alike of a run: whose process has ended, and what its tables hold
when nothing is under way any more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from squall.model.checks.excuses import ENDED_PROCESS, excused
from squall.model.events.run import Run, Violation
from squall.real import tracing

#: faults after which what a process had is gone, in part or all of it
ENDS = frozenset({"crash", "shutdown", "leave"})


class Followed(Protocol):
    """A run as a path of a model: what ``lost`` names is not followed any more, nor what workers
    do that are ``gone``."""

    gone: set[int]

    @property
    def lost(self) -> object: ...

    def end_of(self, worker: int) -> None: ...

    def tables(self, worker: int) -> Sequence[int]: ...


def takes_end(run: Run, replay: Followed, n: int) -> bool:
    """Whether event ``n`` is a fault, or the end of a group: then the model has heard of it."""
    _, worker, _, type, values = run.records[n]
    if type is tracing.FAULT_INJECTED:
        kind, target = values[0], values[2]
        if kind in ENDS:
            replay.end_of(target)
        elif kind == "restart":
            replay.gone.discard(target)
        return True
    if type is tracing.GROUP_LEFT:
        replay.end_of(worker)
        return True
    return False


def tables_differ(run: Run, replay: Followed, first: int) -> Iterator[Violation]:
    """Where the tables of a worker are not as the model has them, which begin at column ``first``
    of those that are counted."""
    if not run.settled or (replay.lost and excused(run, ENDED_PROCESS)):
        return
    names = tracing.TABLES_COUNTED.fields[first:]
    for n in run.of(tracing.TABLES_COUNTED):
        _, worker, _, _, values = run.records[n]
        for name, expected, seen in zip(names, replay.tables(worker), values[first:], strict=False):
            if expected != seen:
                what = f"{name.replace('_', ' ')} in the tables at the end"
                yield run.violation("protocol", what, f"{expected}, as the model has it", seen, n)
