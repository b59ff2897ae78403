"""A whole run as a path of the model of references: property ``protocol`` does this for passes."""

from __future__ import annotations

from collections.abc import Iterator

from squall.model.checks.protocol import tables_differ, takes_end
from squall.model.events.run import Run, Violation
from squall.model.events.teardown import last_of
from squall.model.protocol.passes.not_allowed import NotAllowedError
from squall.properties.model.protocol.replay import READERS, Replay
from squall.real import tracing


def replayed(run: Run, replay: Replay) -> Iterator[Violation]:
    """What is no step of the model in a run, and what differs at the end. ``replay`` has the model's
    state then. References that a process had part in which ended, or left its group, are not followed
    further."""
    records = run.records
    end = last_of(run)
    n = -1
    try:
        for n in run.of(*READERS, tracing.FAULT_INJECTED, tracing.GROUP_LEFT):
            if n >= end:
                break
            if not takes_end(run, replay, n) and _is_followed(run, replay, n):
                replay.take(records[n][1], records[n][3], records[n][4])
        replay.finish()
    except NotAllowedError as error:
        what = f"{records[n][3].name} is no step of the model"
        yield run.violation("protocol", what, error.expected, error.seen, n)
        return
    yield from tables_differ(run, replay, 0)


def _is_followed(run: Run, replay: Replay, n: int) -> bool:
    if not replay.gone and not replay.lost:
        return True
    _, worker, _, type, values = run.records[n]
    name = replay.reference_of(type, values)
    if worker in replay.gone:
        replay.lost.add(name)
    if name not in replay.lost:
        return True
    if type is tracing.CHILD_PENDING:
        replay.lost.add(values[2])  # CHILD_ACCEPTED names the child alone
    return False
