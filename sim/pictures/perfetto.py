"""A run as a trace for Perfetto and chrome://tracing.

The format is Chrome's Trace Event Format (JSON object form): a worker is a process, a task a
thread of it, what a task does and waits for are slices, a message is a flow from the slice that
sent it to the one that it started. Virtual time is in microseconds; events of one instant are
set a nanosecond apart, in their order, since a slice must have some length to be seen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from squall.real import tracing
from squall.sim.pictures.flows import Task, flows_of, name_of, tasks_of
from squall.sim.pictures.palette import GRADIENT
from squall.sim.pictures.recording import Recording, recording
from squall.sim.pictures.spans import CONFIRM, FUNCTION, NODE, OPERATION, PASS, REPLY, spans_of

#: the thread of a worker that stands for what arrives and starts no task
ARRIVALS = 0
#: what belongs to no worker is a process of its own
_NOBODY = 1 << 20

_COLORS = {
    FUNCTION.name: "rail_response",
    NODE.name: "bad",
    REPLY.name: "thread_state_sleeping",
    PASS.name: "thread_state_iowait",
}


def perfetto(run: object) -> dict[str, Any]:
    """The trace as plain values, for ``json.dump``."""
    run = recording(run)
    at = _timestamps(run)
    return {
        "traceEvents": [
            *_names(run),
            *_tasks(run, at),
            *_spans(run, at),
            *_overlapping(run, at),
            *_arrivals(run, at),
            *_messages(run, at),
            *_violations(run, at),
        ],
        "displayTimeUnit": "ns",
        "otherData": {
            "title": run.title,
            "outcome": run.outcome,
            "digest": run.digest,
            "replay": run.replay,
            "clock": "virtual time; events of one instant are set 1 ns apart, in their order",
        },
    }


def perfetto_json(run: object) -> str:
    """The trace as text."""
    return json.dumps(perfetto(run), separators=(",", ":"), allow_nan=False)


def _timestamps(run: Recording) -> list[float]:
    # In whole nanoseconds, as readers keep them.
    found: list[float] = []
    last = -1
    for time_s in run.times.tolist():
        last = max(round(time_s * 1e9), last + 1)
        found.append(last / 1000)
    return found


def _pid(worker: int) -> int:
    return worker + 1 if worker >= 0 else _NOBODY


def _names(run: Recording) -> Iterator[dict[str, Any]]:
    workers = list(run.workers)
    tasks = tasks_of(run)
    if any(task.worker < 0 for task in tasks.values() if task.id):
        workers.append(-1)
    for worker in workers:
        name = run.name(worker) if worker >= 0 else "no worker"
        yield _meta("process_name", worker, 0, {"name": name})
        yield _meta("process_sort_index", worker, 0, {"sort_index": _pid(worker)})
        if worker >= 0:
            yield _meta("thread_name", worker, ARRIVALS, {"name": "arrivals"})
    for task in tasks.values():
        if task.id:
            yield _meta("thread_name", task.worker, task.id, {"name": _task_name(run, task)})
            yield _meta("thread_sort_index", task.worker, task.id, {"sort_index": task.id})


def _task_name(run: Recording, task: Task) -> str:
    return run.called.task(task.id, task.worker) if task.name else "task"


def _meta(name: str, worker: int, thread: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": _pid(worker), "tid": thread, "ts": 0, "args": args}


def _slice(
    name: str, category: str, worker: int, thread: int, first: float, last: float, **args: Any
) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": _pid(worker),
        "tid": thread,
        "ts": first,
        "dur": round(max(last - first, 0.0), 3),
        "args": args,
    }


def _tasks(run: Recording, at: list[float]) -> Iterator[dict[str, Any]]:
    for task in tasks_of(run).values():
        if task.id:
            last = task.last if task.ended else run.last
            more = {"error": task.error} if task.error else {}
            yield _slice(
                _task_name(run, task), "task", task.worker, task.id, at[task.first],
                at[last], task=task.id, message=task.cause, event=task.first, **more,
            )  # fmt: skip


def _spans(run: Recording, at: list[float]) -> Iterator[dict[str, Any]]:
    tasks = tasks_of(run)
    for span in spans_of(run):
        if span.activity not in (FUNCTION, NODE, REPLY, PASS):
            continue
        found = _slice(
            span.label, span.activity.name, tasks[span.task].worker, span.task, at[span.first],
            at[span.last], what=span.activity.name, detail=span.detail, event=span.first,
        )  # fmt: skip
        found["cname"] = _COLORS[span.activity.name]
        yield found


def _overlapping(run: Recording, at: list[float]) -> Iterator[dict[str, Any]]:
    """What may begin and end within what else the same task does."""
    found = [span for span in spans_of(run) if span.activity in (CONFIRM, OPERATION)]
    for number, span in enumerate(found):
        for phase, event in (("b", span.first), ("e", span.last)):
            yield {
                "ph": phase,
                "name": span.label,
                "cat": span.activity.name,
                "id": f"0x{number:x}",
                "pid": _pid(int(run.workers_of[span.first])),
                "tid": span.task,
                "ts": at[event],
                "args": {"event": event, "detail": span.detail},
            }


def _started(run: Recording) -> dict[int, int]:
    """The event at which the task of a message begins, by the message's number."""
    found: dict[int, int] = {}
    for n in run.run.of(tracing.TASK_STARTED):
        _, parent, cause = run.records[n][4]
        if cause >= 0 and parent <= 0:
            found.setdefault(cause, n)
    return found


def _arrivals(run: Recording, at: list[float]) -> Iterator[dict[str, Any]]:
    started = _started(run)
    for flow in flows_of(run):
        if flow.arrived >= 0 and flow.number not in started:
            yield _slice(
                f"{name_of(run, flow)} arrives", "message", flow.dst, ARRIVALS,
                at[flow.arrived], at[flow.arrived], message=flow.number,
                event=flow.arrived,
            )  # fmt: skip


def _messages(run: Recording, at: list[float]) -> Iterator[dict[str, Any]]:
    started = _started(run)
    for flow in flows_of(run):
        sender = run.records[flow.sent][2]
        args = {
            "message": flow.number, "bytes": flow.size_bytes, "fate": flow.fate,
            "about": str(list(flow.about)), "event": flow.sent,
        }  # fmt: skip
        common = {
            "name": name_of(run, flow),
            "cat": "gradient" if flow.kind is GRADIENT else flow.kind.name,
            "id": flow.number,
        }
        if flow.dropped >= 0:
            yield {
                "ph": "i", "s": "t", "name": f"{name_of(run, flow)} lost: {flow.reason}",
                "cat": "lost", "pid": _pid(flow.src), "tid": sender, "ts": at[flow.sent],
                "args": args,
            }  # fmt: skip
        if flow.arrived < 0:
            continue
        first = started.get(flow.number)
        thread = ARRIVALS if first is None else run.records[first][2]
        when = at[flow.arrived] if first is None else at[first]
        yield {**common, "ph": "s", "pid": _pid(flow.src), "tid": sender, "ts": at[flow.sent],
               "args": args}  # fmt: skip
        yield {**common, "ph": "f", "bp": "e", "pid": _pid(flow.dst), "tid": thread, "ts": when}


def _violations(run: Recording, at: list[float]) -> Iterator[dict[str, Any]]:
    for violation in run.violations:
        for n in violation.events:
            if 0 <= n < len(run):
                worker = int(run.workers_of[n])
                yield {
                    "ph": "i", "s": "p" if worker >= 0 else "g", "cat": "violation",
                    "name": f"violated: {violation.property}", "pid": _pid(worker),
                    "tid": run.records[n][2], "ts": at[n],
                    "args": {"what": violation.what, "expected": violation.expected,
                             "seen": violation.seen, "event": n},
                }  # fmt: skip
