"""Each run is a path of the model of the RRef protocol."""

from __future__ import annotations

from collections.abc import Iterator

from squall.model.checks.protocol_ends import tables_differ, takes_end
from squall.model.checks.protocol_passes import replayed_passes
from squall.model.events.fault_effects import faults_of
from squall.model.events.run import PORT_ONLY, Property, Run, Violation, named
from squall.model.events.torn_down import last_of
from squall.model.protocol.passes import replay as passes
from squall.model.protocol.refusal import NotAllowedError
from squall.model.protocol.replay import READERS, Replay
from squall.real import tracing


@named("protocol", engines=PORT_ONLY, work="both")
def PROTOCOL(run: Run) -> Iterator[Violation]:  # noqa: N802
    """Each event of an RRef is a step that the model of the protocol (model/protocol/) allows, and
    when nothing is under way any more the tables of each worker hold what the model says. So is
    each event of an autograd context and of a pass one of the model of these
    (model/protocol/passes/). The first event that is no step is told; what comes after it says
    nothing. References and contexts that a process had part in which a fault ended, or which left
    its group, are not followed further.
    """
    yield from replayed(run, Replay())
    yield from replayed_passes(run, passes.Replay())


def replayed(run: Run, replay: Replay) -> Iterator[Violation]:
    """What is no step of the model in a run, and what differs at the end. ``replay`` has the model's
    state then."""
    records = run.records
    end = last_of(run)
    faulty = bool(faults_of(run)) or bool(run.of(tracing.GROUP_LEFT))
    n = -1
    try:
        if faulty:
            for n in run.of(*READERS, tracing.FAULT_INJECTED, tracing.GROUP_LEFT):
                if n >= end:
                    break
                _take_after_faults(run, replay, n)
        else:
            take = replay.take
            for n in run.of(*READERS):
                if n >= end:
                    break
                record = records[n]
                take(record[1], record[3], record[4])
        replay.finish()
    except NotAllowedError as error:
        what = f"{records[n][3].name} is no step of the model"
        yield run.violation("protocol", what, error.expected, error.seen, n)
        return
    yield from tables_differ(run, replay, 0)


def _take_after_faults(run: Run, replay: Replay, n: int) -> None:
    if takes_end(run, replay, n):
        return
    _, worker, _, type, values = run.records[n]
    if replay.gone or replay.lost:
        name = replay.reference_of(type, values)
        if worker in replay.gone:
            replay.lost.add(name)
        if name in replay.lost:
            if type is tracing.CHILD_PENDING:
                replay.lost.add(values[2])  # CHILD_ACCEPTED names the child alone
            return
    replay.take(worker, type, values)


RANK = 31
PROPERTIES: tuple[Property, ...] = (PROTOCOL,)
