"""What is recorded at both ends of a message, what may hold a thread of the RPC pool, and whose
tasks call."""

from __future__ import annotations

from collections.abc import Iterator

from squall.model.events.fault_effects import own_time
from squall.model.events.run import PORT_ONLY, Property, Run, Violation, named
from squall.model.events.unwrapped import called
from squall.real import tracing

#: handlers that may wait: they run what users wrote, or a whole backward pass
_MAY_WAIT = frozenset(
    {
        "SCRIPT_CALL",
        "PYTHON_CALL",
        "SCRIPT_REMOTE_CALL",
        "PYTHON_REMOTE_CALL",
        "RUN_WITH_PROFILING_REQ",
        "RREF_BACKWARD_REQ",
    }
)
_WRAPPERS = frozenset({"FORWARD_AUTOGRAD_REQ", "RUN_WITH_PROFILING_REQ"})
#: the error of a task that ended because its process did
KILLED = "killed"


@named("recording", engines=PORT_ONLY, work="both")
def RECORDING(run: Run) -> Iterator[Violation]:  # noqa: N802
    """What the receiver of a message records, its sender has recorded before: a recv function
    belongs to a send function of the same autograd message and context, on the worker that the
    message came from, for this worker and for the same number of tensors; and there is only one.
    """
    records = run.records
    sent: dict[tuple[int, int, int], tuple[int, int, int]] = {}
    received: dict[tuple[int, int], int] = {}
    for n in run.of(tracing.SEND_ATTACHED, tracing.RECV_ATTACHED):
        _, worker, _, type, (context, message, other, tensors) = records[n]
        if type is tracing.SEND_ATTACHED:
            sent[worker, context, message] = (other, tensors, n)
            continue
        send = sent.get((other, context, message))
        expected = f"a send function on worker {other} for worker {worker}"
        if send is None:
            what = "a recv function without its send function"
            yield run.violation("recording", what, expected, "none", n)
        elif send[:2] != (worker, tensors):
            what = "a recv function unlike its send function"
            wanted = f"{expected} with {tensors} tensors"
            seen = f"one for worker {send[0]} with {send[1]}"
            yield run.violation("recording", what, wanted, seen, send[2], n)
        if (context, message) in received:
            what = "a message with two recv functions"
            yield run.violation("recording", what, "one", "two", received[context, message], n)
        received[context, message] = n


@named("threads", engines=PORT_ONLY, work="both")
def THREADS(run: Run) -> Iterator[Violation]:  # noqa: N802
    """A worker has few threads for RPC, so none is held back: only a call of a user's function
    and ``RRef.backward`` may keep theirs. Gradients, fetches, clean-ups and all that is said of
    RRefs are handled at one instant, and what they wait for goes on elsewhere; no thread that
    brings gradients runs a node of the graph, whose hooks may block. A worker calls others from
    tasks of its own, whoever brings the news that makes it call: they have its clock and its locals.
    """
    records = run.records
    at_home = {
        records[n][2]: records[n][1]
        for n in run.of(tracing.TASK_STARTED, tracing.TASK_ENDED)
        if records[n][1] >= 0
    }
    for n in run.of(tracing.CALL_STARTED):
        _, worker, task, _, (_, _, type, *_) = records[n]
        home = at_home.get(task, worker)
        if home != worker:
            yield run.violation(
                "threads", f"a {type} begun by a task of another worker", worker, home, n
            )
    calls: dict[tuple[int, int], str] = {
        (values[1], values[4]): called(values[3], values[6])
        for values in [records[n][4] for n in run.of(tracing.MESSAGE_SENT)]
        if values[3] in _WRAPPERS
    }
    started: dict[int, tuple[int, str]] = {}
    for n in run.of(tracing.HANDLER_STARTED):
        _, _, task, _, (src, type, id) = records[n]
        kind = str(type)
        if kind in _WRAPPERS:
            kind = calls.get((src, id), kind)
        if kind not in _MAY_WAIT:
            started[task] = (n, kind)
    own = own_time(run)
    for n in run.of(tracing.TASK_ENDED):
        began = started.get(records[n][2])
        if began is None:
            continue
        time_s, worker, _, _, (error,) = records[n]
        if error != KILLED and worker not in own and time_s > records[began[0]][0]:
            seen = f"{time_s - records[began[0]][0]:.6f} s"
            yield run.violation(
                "threads", f"a thread held by {began[1]}", "no time", seen, began[0], n
            )
    for n in run.of(tracing.NODE_EXECUTED):
        began = started.get(records[n][2])
        if began is not None:
            yield run.violation(
                "threads",
                f"a node run in the thread of {began[1]}",
                "a task of its own",
                "the thread that brought the gradients",
                began[0],
                n,
            )


RANK = 40
PROPERTIES: tuple[Property, ...] = (RECORDING, THREADS)
