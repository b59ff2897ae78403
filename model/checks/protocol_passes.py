"""Each run is a path of the model of contexts and passes. Asked by property ``protocol``."""

from __future__ import annotations

from collections.abc import Iterator

from squall.model.checks.protocol_ends import ENDS, tables_differ, takes_end
from squall.model.events.fault_effects import faults_of
from squall.model.events.run import Run, Violation
from squall.model.events.torn_down import last_of
from squall.model.protocol.passes.carried import CARRIED
from squall.model.protocol.passes.replay import ABOUT_CALLS, READERS, Replay
from squall.model.protocol.refusal import NotAllowedError
from squall.real import tracing

_ABOUT_CONTEXTS = tuple(type for type in READERS if type not in ABOUT_CALLS)
#: where the tables of a worker that the model has begin in the values of TABLES_COUNTED
_FIRST = tracing.TABLES_COUNTED.fields.index("contexts")


def replayed_passes(run: Run, replay: Replay) -> Iterator[Violation]:
    """What is no step of the model in a run, and what differs at the end. ``replay`` has the model's
    state then."""
    if not run.of(tracing.CONTEXT_CREATED):
        return
    records = run.records
    end = last_of(run)
    faulty = bool(faults_of(run)) or bool(run.of(tracing.GROUP_LEFT))
    injected = (records[n][4][0] for n in run.of(tracing.FAULT_INJECTED))
    replay.ends = faulty and (_leaves(run) or any(kind in ENDS for kind in injected))
    n = -1
    try:
        if faulty:
            others = run.of(tracing.FAULT_INJECTED, tracing.GROUP_LEFT)
            for n in sorted([*_told(run), *others]):
                if n >= end:
                    break
                _take_after_faults(run, replay, n)
        else:
            for n in _told(run):
                if n >= end:
                    break
                _, worker, task, type, values = records[n]
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
    return sorted([*run.of(*_ABOUT_CONTEXTS), *started, *ended, *handled])


def _take_after_faults(run: Run, replay: Replay, n: int) -> None:
    if takes_end(run, replay, n):
        return
    _, worker, task, type, values = run.records[n]
    if type not in ABOUT_CALLS and worker in replay.gone:
        replay.lost.add(values[0])
    if type in ABOUT_CALLS or values[0] not in replay.lost:
        READERS[type](replay, worker, task, *values)
