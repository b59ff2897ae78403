"""What a worker keeps of what is over: nothing."""

from __future__ import annotations

from collections.abc import Iterator

from squall.model.checks.excuses import ENDED_PROCESS, FAULT, excused
from squall.model.events.fault_effects import faults_of
from squall.model.events.idle_state import AFTER_A_PASS
from squall.model.events.run import PORT_ONLY, Property, Run, Violation, named
from squall.real import tracing


@named("leftovers", engines=PORT_ONLY, work="both")
def LEFTOVERS(run: Run) -> Iterator[Violation]:  # noqa: N802
    """When nothing is under way and nobody keeps a reference, each table of each worker is empty,
    each count is 0 and no lock is held: of every object that makes up a worker, but for what
    model/events/idle_state.py names. Its contexts, passes, messages, calls, references and the tensors
    that it received are gone without a collection of garbage: what refers to itself keeps all that
    it has, the graph and its gradients among them, until somebody looks for garbage. After a pass that
    has ended well an open context has nothing of it but gradients. After faults
    a worker that may keep a value, a reference or a context may also keep what belongs to it; after
    its shutdown, with which references end, only what belongs to a context.
    """
    found = run.of(tracing.LEFT_BEHIND, tracing.STILL_ALIVE)
    if not found or not run.settled:
        return
    records = run.records
    faults = faults_of(run)
    #: workers whose tables hold something, which the properties rrefs and contexts judge
    counted = run.of(tracing.TABLES_COUNTED)
    holding = {records[n][1] for n in counted if any(records[n][4])}
    holding_contexts = {records[n][1] for n in counted if any(records[n][4][_CONTEXTS:])}
    shut_down = _shut_down(run)
    for n in found:
        _, worker, _, type, (what, count, example) = records[n]
        if faults.gone_after(worker, n) and excused(run, ENDED_PROCESS):
            continue
        may_hold = holding if n < shut_down else holding_contexts
        if worker in may_hold and faults.hit() and excused(run, FAULT):
            continue
        if type is tracing.LEFT_BEHIND:
            yield run.violation(
                "leftovers",
                what if what.endswith(AFTER_A_PASS) else f"{what} at the end",
                "nothing",
                _seen(count, example),
                n,
            )
        else:
            yield run.violation(
                "leftovers",
                f"a {what} outlives its use",
                "gone, without a collection of garbage",
                _seen(count, example),
                n,
            )


def _shut_down(run: Run) -> int:
    """From which event on workers shut down, after all of them were quiet."""
    records = run.records
    n = max(run.of(tracing.TABLES_COUNTED), default=len(records))
    while n < len(records) and records[n][3] in (tracing.TABLES_COUNTED, tracing.LEFT_BEHIND):
        n += 1
    return n


def _seen(count: int, example: str) -> str:
    return f"{count}, the first {example}" if example else str(count)


#: of the event tables_counted, the fields from here on are about contexts
_CONTEXTS = tracing.TABLES_COUNTED.fields.index("contexts")
RANK = 32
PROPERTIES: tuple[Property, ...] = (LEFTOVERS,)
