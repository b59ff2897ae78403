"""A run as the script of a page reads it: JSON, compressed, as text that HTML can hold."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squall.model.events.names import event_named
from squall.sim.pictures.call_tree import call_tree
from squall.sim.pictures.canvas import clock_of
from squall.sim.pictures.causality import causes_of
from squall.sim.pictures.critical import steps_of
from squall.sim.pictures.flows import flows_of
from squall.sim.pictures.labels import plain, told
from squall.sim.pictures.palette import BY_ITSELF, KINDS
from squall.sim.pictures.recording import Recording

#: events of a run that a page shows as a whole at first, and what it shows of a longer one
WHOLE_MOST, OPENED_MOST = 600, 400


def core(run: Recording, views: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the page needs at once: its views, the times of events, and the messages."""
    flows = flows_of(run)

    def column(values: Iterable[int]) -> dict[str, str]:
        return _binary(np.fromiter(values, np.int32, len(flows)))

    return {
        "views": views,
        "clock": clock_of(run),
        "window": opening(run),
        "times": _binary(run.times),
        "workers": {worker: run.name(worker) for worker in run.workers},
        "order": run.workers,
        "failure": run.failure,
        "marks": run.marks,
        "opened_at": run.opened_at,
        "wrong": run.wrong,
        "opened": "waits" if run.waits else views[0]["id"],
        "cited": sorted(
            {n for violation in run.violations for n in violation.events} | set(run.marks)
        ),
        "flows": {
            "number": column(flow.number for flow in flows),
            "src": column(flow.src for flow in flows),
            "dst": column(flow.dst for flow in flows),
            "sent": column(flow.sent for flow in flows),
            "arrived": column(flow.arrived for flow in flows),
            "end": column(flow.end for flow in flows),
        },
    }


def opening(run: Recording) -> list[int]:
    """The first and last event of what a page shows at first: a short run as a whole; of a longer one
    what led to what decided its failure, or to where it went wrong, or else the step of its first backward pass."""
    if len(run) <= WHOLE_MOST:
        return [0, run.last]
    wrong = run.opened_at
    if wrong >= 0:
        return [max(0, wrong - OPENED_MOST * 3 // 4), min(run.last, wrong + OPENED_MOST // 4)]
    for _, first, last in sorted(steps_of(run), key=lambda step: step[1]):
        return [first, min(last, first + OPENED_MOST)]
    return [0, OPENED_MOST]


def events(run: Recording) -> dict[str, Any]:
    """What the table of events shows, and what leads to what."""
    types: dict[str, int] = {}
    codes = np.fromiter(
        (types.setdefault(record[3].name, len(types)) for record in run.records),
        np.int16,
        len(run),
    )
    causes = causes_of(run)
    tasks = np.fromiter((record[2] for record in run.records), np.int32, len(run))
    return {
        "types": list(types),
        "names": list(map(event_named, types)),
        "type": _binary(codes),
        "task": _binary(tasks),
        "tasks": {
            int(task): plain(run.called.task(task, int(run.workers_of[number]), where=False))
            for task, number in zip(*np.unique(tasks, return_index=True), strict=True)
            if task
        },
        "worker": _binary(run.workers_of),
        "before": _binary(causes.before),
        "elsewhere": _binary(causes.elsewhere),
        "text": [told(run, number) for number in range(len(run))],
    }


def calls(run: Recording) -> dict[str, Any]:
    """What each call led to; kinds, names and errors by their places in lists."""
    tree = call_tree(run)
    branches = tree.branches
    names = {name: n for n, name in enumerate(dict.fromkeys(each.name for each in branches))}
    errors = {error: n for n, error in enumerate(dict.fromkeys(each.error for each in branches))}
    columns = {
        "name": [names[each.name] for each in branches],
        "error": [errors[each.error] for each in branches],
        "kind": [KINDS.index(each.kind) for each in branches],
        "of_event": tree.of_event,
    }
    for field in ("worker", "to", "first", "last", "began", "ended", "message", "parent"):
        columns[field] = [getattr(each, field) for each in branches]
    return {
        "names": list(names),
        "errors": list(errors),
        "kinds": [{"color": kind.color, "by_itself": kind in BY_ITSELF} for kind in KINDS],
        **{name: _binary(np.array(values, np.int32)) for name, values in columns.items()},
    }


def _binary(values: NDArray[Any]) -> dict[str, str]:
    kind = {"float64": "f8", "int32": "i4", "int16": "i2"}[values.dtype.name]
    little = values.astype(values.dtype.newbyteorder("<"))
    return {"dtype": kind, "bdata": base64.b64encode(little.tobytes()).decode("ascii")}


def packed_json(value: Any) -> str:
    return packed(json.dumps(value, separators=(",", ":")))


def packed(text: str) -> str:
    """JSON text, compressed and in base64."""
    # Without the time of day, so that equal runs give equal pages.
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode("ascii")
