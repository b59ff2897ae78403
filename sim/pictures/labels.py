"""What pictures say in words: titles, texts for hovering, events, names and durations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import plotly.graph_objects as go

from squall.model.events.names import Names, event_named, ordinal, type_named
from squall.real import tracing
from squall.sim.pictures.flows import seconds
from squall.sim.pictures.palette import LAYOUT, MUTED
from squall.sim.pictures.recording import Recording

#: characters of an event's details that are told at most
_DETAILS_MOST = 400


def heading(text: str) -> dict[str, Any]:
    """A title at the top left, of one line or two."""
    return {
        "text": text,
        "x": 0,
        "xref": "container",
        "xanchor": "left",
        "y": 1,
        "yref": "container",
        "yanchor": "top",
        "pad": {"l": 12, "t": 24 if "<br>" in text else 14},
        "font": {"size": 13.5},
    }


def nothing(title: str, why: str) -> go.Figure:
    """An empty picture with a text, for a run in which there is nothing to draw."""
    figure = go.Figure()
    figure.update_layout(
        dict(LAYOUT),
        xaxis={"visible": False},
        yaxis={"visible": False},
        title=heading(f"<b>{title}</b>"),
        annotations=[
            {
                "text": why,
                "x": 0.5,
                "y": 0.5,
                "xref": "paper",
                "yref": "paper",
                "showarrow": False,
                "font": {"size": 15, "color": MUTED},
            }
        ],
        meta={"clock": "none", "title": title, "notes": [why]},
    )
    return figure


def hover(run: Recording, number: int) -> str:
    """An event in one line, for hovering."""
    if not 0 <= number < len(run):
        return ""
    return f"#{number} at t={run.time_s(number):.6f} s"


def table(rows: Iterable[tuple[str, object]], head: str = "") -> str:
    """A hover text: a bold line, and a line for each pair that says something."""
    lines = [f"<b>{head}</b>"] if head else []
    lines += [
        f'<span style="color:{MUTED}">{name}</span> {value}'
        for name, value in rows
        if value not in ("", None)
    ]
    return "<br>".join(lines)


def duration(run: Recording, first: int, last: int) -> str:
    """How long it is from one event to another, for readers."""
    return seconds(run.time_s(last) - run.time_s(first))


def plain(name: str) -> str:
    """A name as pictures have it, which set no code apart."""
    return name.replace("`", "")


_MESSAGES = (tracing.MESSAGE_SENT, tracing.MESSAGE_DELIVERED, tracing.MESSAGE_DROPPED)
_HANDLERS = (tracing.HANDLER_STARTED, tracing.HANDLER_RESUMED, tracing.HANDLER_ENDED)
_FUNCTIONS = (tracing.UDF_STARTED, tracing.UDF_ENDED)
_OPERATIONS = (tracing.OPERATION_STARTED, tracing.OPERATION_ENDED)


def told(run: Recording, number: int) -> str:
    """The details of an event: the function that it is about and its line, where these are known, and its values."""
    place = run.places.get(number, "")
    what, *rest = [*_details(run, number), ""]
    text = ", ".join(filter(None, (f"{what} ({place})".strip() if place else what, *rest)))
    return text if len(text) <= _DETAILS_MOST else text[: _DETAILS_MOST - 1] + "…"


def line(run: Recording, number: int) -> str:
    """An event in one line: when, where, what, and its details."""
    worker = int(run.workers_of[number])
    where = f"{run.name(worker)} " if worker >= 0 else ""
    return f"t={run.time_s(number):.6f} {where}{what(run, number)}"


def what(run: Recording, number: int) -> str:
    """What happens by an event, and its details."""
    details = told(run, number)
    return event_named(run.records[number][3].name) + (f": {details}" if details else "")


def _details(run: Recording, number: int) -> Iterator[str]:
    """What it is about first."""
    _, worker, task, type, values = run.records[number]
    names, value = run.called, dict(zip(type.fields, values, strict=True))
    about = value.pop("about", ())
    if type is tracing.TASK_STARTED:
        yield plain(names.task(task, int(run.workers_of[number])))
        if value["cause"] >= 0:
            yield f"set off by message {value['cause']}"
        return
    if type in _MESSAGES:
        src, dst = value.pop("src"), value.pop("dst")
        kind, id = value.pop("type"), value.pop("id")
        yield names.message(kind, src, dst, id)
        yield f"{names.worker(src)} → {names.worker(dst)}"
        yield f"message {value.pop('number')}"
        yield f"call {id}" if id >= 0 else ""
        yield from names.about(kind, about)
    elif type is tracing.FAULT_INJECTED:
        src, dst, at = value["src"], value["dst"], value["worker"]
        yield event_named(value["kind"])
        yield names.worker(at) if at >= 0 else ""
        yield f"{names.worker(src)} → {names.worker(dst)}" if src >= 0 else ""
        yield hit(value["nth"], value["type"]) if value["type"] else ""
        yield how(value["kind"], value["detail"])
        return
    elif type is tracing.CALL_STARTED:
        kind = value.pop("type")
        yield plain(names.call(worker, value["id"]))
        yield from (_said(names, type, *item) for item in value.items())
        yield from names.about(kind, about)
        return
    elif type is tracing.CALL_ENDED:
        yield plain(names.call(worker, value["id"]))
    elif type in _HANDLERS:
        yield plain(names.call(value["src"], value["id"]))
        del value["type"]
    elif type in _FUNCTIONS:
        yield names.began(task, value.pop("name"))
    elif type in _OPERATIONS:
        yield f"{value.pop('kind')} {value.pop('number')}"
    yield from (_said(names, type, *item) for item in value.items())


def _said(names: Names, type: tracing.EventType, field: str, value: Any) -> str:
    """One value of an event; "" where it says nothing."""
    if value is None or value == () or value == "" or value is False:
        return ""
    if field in ("src", "dst", "to", "sender", "known", "owner", "parent"):
        return _WORKERS[field].format(names.worker(value)) if value >= 0 else ""
    if field in ("context", "message", "rref", "fork", "child", "group"):
        return names.thing(field, value)
    said = _VALUES.get(field)
    if said is not None:
        return said(value)
    return f"{field.replace('_', ' ')} {value}"


_WORKERS = {
    "src": "from {}",
    "dst": "to {}",
    "to": "to {}",
    "sender": "from {}",
    "known": "{}",
    "owner": "of {}",
    "parent": "given by {}",
}
_VALUES: dict[str, Callable[[Any], str]] = {
    "id": "call {}".format,
    "type": type_named,
    "size_bytes": "{:,} bytes".format,
    "latency_s": lambda value: f"after {seconds(value)}",
    "delay_s": lambda value: f"in {seconds(value)}",
    "timeout_s": lambda value: f"timeout {seconds(value)}" if value > 0 else "without a timeout",
    "name": str,
    "outcome": str,
    "reason": str,
    "error": lambda value: f"error: {str(value).strip().partition(chr(10))[0]}",
    "number": "node {}".format,
    "tensors": lambda count: f"{count} tensor{'' if count == 1 else 's'}",
    "nodes": lambda value: f"{len(value)} nodes",
    "graph": lambda value: "",
    "retain_graph": lambda value: "the graph is kept",
}


#: by kind of fault: how it was done; what is not here says it in text, or has come so many seconds later
_HOW: dict[str, Callable[[Any], str]] = {
    "allocation": "node {}".format,
    "clock_skew": lambda skew: f"{seconds(skew[0])} ahead, {skew[1]:g} times as fast",
    "corrupt": "{} bytes changed".format,
    "crash": lambda how: f"its peers {'do not notice' if how == 'silent' else 'see it at once'}",
    "duplicate": lambda after: f"again after {', '.join(map(seconds, after))}",
    "pause": lambda value: f"for {seconds(value)}",
    "pool_size": "{} threads".format,
    "raise": lambda text: event_named(str(text)),
    "reset": "after {:.0%} of its way".format,
    "slow_cpu": "{:g} times slower".format,
    "slow_start": lambda value: f"{seconds(value)} after the others",
}


def how(kind: str, detail: Any) -> str:
    """How a fault was done: by how many seconds, how often, ..."""
    if detail is None:
        return ""
    if kind in _HOW:
        return _HOW[kind](detail)
    return f"{seconds(detail)} later" if isinstance(detail, float) else str(detail)


def hit(nth: int, type: str) -> str:
    """The message that a fault hit, of those of its type on its link."""
    return f"the {ordinal(nth)} {type_named(type)} on this link" if nth else type_named(type)
