"""Each run is a path of the model of contexts and passes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from squall.model.checks.excuses import ENDED_PROCESS, excused
from squall.model.events.fault_effects import ENDING
from squall.model.events.run import PORT_ONLY, Property, Run, Violation, named
from squall.model.events.teardown import last_of
from squall.model.protocol.passes.message_correlation import CARRIED
from squall.model.protocol.passes.not_allowed import NotAllowedError
from squall.model.protocol.passes.replay import ABOUT_CALLS, READERS, Replay
from squall.real import tracing

_ABOUT_CONTEXTS = tuple(type for type in READERS if type not in ABOUT_CALLS)
#: where the tables of a worker that the model has begin in the values of TABLES_COUNTED
_FIRST = tracing.TABLES_COUNTED.fields.index("contexts")


@named("protocol", engines=PORT_ONLY, work="both")
def PROTOCOL(run: Run) -> Iterator[Violation]:  # noqa: N802
    """Each event of an autograd context and of a pass is a step that the model of these
    (model/protocol/passes/) allows, and when nothing is under way any more each worker has the
    contexts and passes that the model has. The first event that is no step is told; what comes after
    it says nothing. Contexts that a process had part in which a fault ended, or which left its
    group, are not followed further. Property ``rrefs`` does this for references.
    """
    yield from replayed(run, Replay())


def replayed(run: Run, replay: Replay) -> Iterator[Violation]:
    """What is no step of the model in a run, and what differs at the end. ``replay`` has the model's
    state then."""
    if not run.of(tracing.CONTEXT_CREATED):
        return
    records = run.records
    end = last_of(run)
    others = run.of(tracing.FAULT_INJECTED, tracing.GROUP_LEFT)
    kinds = (records[n][4][0] for n in run.of(tracing.FAULT_INJECTED))
    replay.ends = _leaves(run) or any(kind in ENDING for kind in kinds)
    n = -1
    try:
        for n in sorted([*_told(run), *others]):
            if n >= end:
                break
            _, worker, task, type, values = records[n]
            if others and takes_end(run, replay, n):
                continue
            if type not in ABOUT_CALLS and worker in replay.gone:
                replay.lost.add(values[0])
            if type in ABOUT_CALLS or values[0] not in replay.lost:
                READERS[type](replay, worker, task, *values)
        replay.finish()
    except NotAllowedError as error:
        what = f"{records[n][3].name} is no step of the model"
        yield run.violation("protocol", what, error.expected, error.seen, n)
        return
    yield from tables_differ(run, replay, _FIRST)


def _leaves(run: Run) -> bool:
    """Whether a process of a script left its group, or ended, without waiting for the others."""
    return run.script is not None and bool(run.of(tracing.GROUP_LEFT))


def _told(run: Run) -> list[int]:
    """The numbers of the events that the model reads. Of calls, of which there are many more, only
    those that carry gradients or releases."""
    records = run.records
    started = [n for n in run.of(tracing.CALL_STARTED) if records[n][4][2] in CARRIED]
    calls = {(records[n][1], records[n][4][0]) for n in started}
    ended = [n for n in run.of(tracing.CALL_ENDED) if (records[n][1], records[n][4][0]) in calls]
    handled = [
        n
        for n in run.of(tracing.HANDLER_STARTED, tracing.HANDLER_ENDED)
        if records[n][4][1] in CARRIED
    ]
    return [*run.of(*_ABOUT_CONTEXTS), *started, *ended, *handled]


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
        if kind in ENDING:
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


RANK = 31
PROPERTIES: tuple[Property, ...] = (PROTOCOL,)
