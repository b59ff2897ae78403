"""What the messages of a script on PyTorch's compiled engine show of its protocol.

Nothing tells of events inside a worker there; but contexts, references and calls show in what is
sent, and the workers' own counters say what is left. The port's events say more (model/checks/rrefs.py,
futures.py, passes.py), and are judged by those.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from squall.model.checks.futures import never_ended
from squall.model.events.fault_effects import RETRIES
from squall.model.events.run import TORCH_ONLY, Property, Run, Violation, named
from squall.real import tracing

_CLEANUP = "CLEANUP_AUTOGRAD_CONTEXT_REQ"
#: messages that are about a context, whose id comes first in what they are about
_OF_A_CONTEXT = frozenset(
    {"FORWARD_AUTOGRAD_REQ", "FORWARD_AUTOGRAD_RESP", "BACKWARD_AUTOGRAD_REQ", "RREF_BACKWARD_REQ"}
)
_DELETE, _FORK, _ACCEPT = "RREF_USER_DELETE", "RREF_FORK_REQUEST", "RREF_CHILD_ACCEPT"


@named("contexts", engines=TORCH_ONLY, work="scripts")
def CONTEXTS(run: Run) -> Iterator[Violation]:  # noqa: N802
    """A context never comes back to life: a worker that has released one, because its script left
    it or because another worker said so, sends nothing for it any more, and no call in it arrives
    there.
    """
    records = run.records
    released: dict[tuple[int, object], int] = {}
    about = {records[n][4][0]: records[n][4][6] for n in run.of(tracing.MESSAGE_SENT)}
    for n in run.of(tracing.MESSAGE_SENT, tracing.MESSAGE_DELIVERED):
        _, _, _, event, (number, src, dst, type, *_) = records[n]
        if not about.get(number):
            continue
        context = about[number][0]
        worker = src if event is tracing.MESSAGE_SENT else dst
        if type == _CLEANUP:
            released.setdefault((worker, context), n)
        elif type in _OF_A_CONTEXT and (worker, context) in released:
            if event is tracing.MESSAGE_DELIVERED and type != "FORWARD_AUTOGRAD_REQ":
                continue  # which is refused, and let go
            began = released[worker, context]
            what = f"{type} after the release"
            yield run.violation("contexts", what, "nothing more", type, began, n)._replace(
                worker=worker
            )


@named("rrefs", engines=TORCH_ONLY, work="scripts")
def RREFS(run: Run) -> Iterator[Violation]:  # noqa: N802
    """A fork is made known to its owner before its deletion is, and is not made known again; it is
    deleted by one worker alone; and what is sent again is not sent more often than it may be.
    """
    records = run.records
    tries: Counter[tuple[object, ...]] = Counter()
    deleted: dict[object, tuple[int, int]] = {}
    for n in run.of(tracing.MESSAGE_SENT):
        _, src, dst, type, _, _, about = records[n][4]
        if type in RETRIES and about:
            tries[src, dst, type, about] += 1
            if tries[src, dst, type, about] == RETRIES[type] + 2:
                most = f"{RETRIES[type]} times more"
                what = f"{type} sent too often"
                yield run.violation("rrefs", what, most, "once more", n)._replace(worker=src)
        if type == _DELETE and about:
            fork = about[1]
            by, first = deleted.setdefault(fork, (src, n))
            if by != src:
                what = "a fork was deleted by two workers"
                told = run.violation("rrefs", what, f"worker {by}", f"worker {src}", first, n)
                yield told._replace(worker=src)
        elif type == _FORK and about and about[1] in deleted:
            first = deleted[about[1]][1]
            what = "a fork was made known after its deletion"
            told = run.violation("rrefs", what, "before", f"fork {about[1]}", first, n)
            yield told._replace(worker=src)


@named("futures", engines=TORCH_ONLY, work="scripts")
def FUTURES(run: Run) -> Iterator[Violation]:  # noqa: N802
    """Each call ends, and each request that a worker takes up is answered, before its group has
    shut down gracefully: no future is left that somebody waits for, or that nobody completes.
    """
    if run.settled:
        yield from never_ended(run)


RANK = 101
PROPERTIES: tuple[Property, ...] = (CONTEXTS, RREFS, FUTURES)
