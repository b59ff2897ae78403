"""All pictures of a run in one file that opens from disk, without a network."""

from __future__ import annotations

import base64
import gzip
import html
import json
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.offline import get_plotlyjs

from squall.real import tracing
from squall.sim.pictures.canvas import clock_of, context_name
from squall.sim.pictures.causality import causes_of
from squall.sim.pictures.contexts import contexts
from squall.sim.pictures.flows import flows_of, seconds
from squall.sim.pictures.futures import futures
from squall.sim.pictures.graph import graph
from squall.sim.pictures.odds import Odds, odds
from squall.sim.pictures.passes import passes
from squall.sim.pictures.recording import Recording, recording
from squall.sim.pictures.rrefs import rrefs
from squall.sim.pictures.space_time import space_time
from squall.sim.pictures.waits import waits
from squall.sim.pictures.work import work

#: passes whose graphs a page holds at most: the largest ones
GRAPHS_MOST = 12
#: characters of an event's details that the table shows at most
_DETAILS_MOST = 400


def page(
    run: object, *, found: Odds | None = None, on_view: Callable[[str], object] | None = None
) -> str:
    """The page as HTML: a summary, every view, and a table of the events that can be searched.

    ``found``: the probability of the failure over time, if it was measured. ``on_view`` is called
    with the name of each view before it is drawn.
    """
    run = recording(run)
    tell = on_view or (lambda name: None)
    views: list[dict[str, Any]] = []
    packed: list[str] = []

    def add(id: str, name: str, figures: Iterable[tuple[str, Callable[[], go.Figure]]]) -> None:
        tell(name)
        parts = []
        for number, (label, draw) in enumerate(figures):
            key = f"view-{id}-{number}"
            parts.append({"id": key, "name": label})
            packed.append(_script(key, draw().to_json()))
        views.append({"id": id, "name": name, "parts": parts})

    add("space_time", "space and time", [("", lambda: space_time(run, clock="order"))])
    add("work", "work", [("", lambda: work(run, clock="order"))])
    add("graph", "autograd graph", _graphs(run))
    add("rrefs", "RRefs", [("", lambda: rrefs(run, clock="order"))])
    add("contexts", "contexts and passes", [("", lambda: contexts(run, clock="order"))])
    add("futures", "futures", [("", lambda: futures(run, clock="order"))])
    add("waits", "who waits", [("", lambda: waits(run))])
    if found is not None:
        add("odds", "odds of the failure", [("", lambda: odds(found, clock="order"))])
    tell("events")
    return Template(_asset("page.html")).substitute(
        title=html.escape(f"squall: {run.title}"),
        heading=html.escape(run.title),
        outcome=html.escape(run.outcome),
        state="good" if run.ok else "bad",
        replay=html.escape(run.replay or "(no command is known that repeats this run)"),
        facts=_facts(run),
        counts=_counts(run),
        violations=_violations(run),
        waits=_waits(run),
        tabs="".join(
            f'<button type="button" role="tab" data-view="{view["id"]}">{view["name"]}</button>'
            for view in views
        ),
        count=f"{len(run):,}",
        core=_pack(_core(run, views)),
        events=_pack(_events(run)),
        views="\n".join(packed),
        css=_asset("page.css"),
        js=_asset("page.js"),
        plotly=get_plotlyjs(),
    )


@cache
def _asset(name: str) -> str:
    return files("squall.sim.pictures").joinpath(name).read_text(encoding="utf-8")


def _graphs(run: Recording) -> list[tuple[str, Callable[[], go.Figure]]]:
    every = passes(run)
    sizes = {one.number: sum(len(part.found) for part in one.parts.values()) for one in every}
    shown = sorted(every, key=lambda one: (-sizes[one.number], one.number))[:GRAPHS_MOST]
    if not shown:
        return [("", lambda: graph(run))]
    of = f", the largest {len(shown)} of {len(every)}" if len(shown) < len(every) else ""

    def draw(number: int) -> Callable[[], go.Figure]:
        return lambda: graph(run, number=number)

    return [
        (
            f"pass {one.number} in {context_name(one.context)}: {sizes[one.number]} nodes{of}",
            draw(one.number),
        )
        for one in shown
    ]


# -- the summary ----------------------------------------------------------------------------------


def _facts(run: Recording) -> str:
    flows = flows_of(run)
    facts = {
        "virtual time": f"{run.ended_s:.6f} s",
        "workers": f"{len(run.workers):,}",
        "events": f"{len(run):,}",
        "messages": f"{len(flows):,}",
        **run.facts,
        "digest": run.digest,
    }
    return "".join(
        f"<div><dt>{html.escape(name)}</dt><dd{' class=mono' if name == 'digest' else ''}>"
        f"{html.escape(value)}</dd></div>"
        for name, value in facts.items()
        if value
    )


def _counts(run: Recording) -> str:
    flows = flows_of(run)
    if not flows:
        return ""
    by_type = Counter(flow.type for flow in flows)
    dropped = sum(flow.dropped >= 0 for flow in flows)
    notable = [f"{dropped:,} dropped"] if dropped else []
    copies = sum(bool(flow.copy) for flow in flows)
    notable += [f"{copies:,} duplicates"] if copies else []
    slowest = max((flow.latency_s for flow in flows), default=0.0)
    notable.append(f"the slowest took {seconds(slowest)}")
    listed = "".join(
        f"<li><code>{html.escape(name)}</code> {count:,}</li>"
        for name, count in sorted(by_type.items(), key=lambda item: (-item[1], item[0]))
    )
    return (
        f"<details><summary>messages by type ({len(by_type)}; {', '.join(notable)})</summary>"
        f"<ul>{listed}</ul></details>"
    )


def _violations(run: Recording) -> str:
    if not run.violations:
        return ""
    lines = []
    for violation in run.violations:
        where = "" if violation.worker is None else f" on {html.escape(run.name(violation.worker))}"
        links = " ".join(f'<a href="#event={number}">#{number}</a>' for number in violation.events)
        lines.append(
            f"<p><b>{html.escape(violation.property)}</b> {html.escape(violation.what)}{where}: "
            f"expected {html.escape(violation.expected)}, seen {html.escape(violation.seen)} "
            f"{links}</p>"
        )
    return f'<div class="violations">{"".join(lines)}</div>'


def _waits(run: Recording) -> str:
    if not run.waits:
        return ""
    lines = "".join(f"<p>{html.escape(line)}</p>" for line in run.waits)
    return f'<div class="violations"><p><b>nothing can happen any more, and these wait</b></p>{lines}</div>'


# -- what the script of the page reads ---------------------------------------------------------------


def _core(run: Recording, views: list[dict[str, Any]]) -> dict[str, Any]:
    flows = flows_of(run)

    def column(values: Iterable[int]) -> dict[str, str]:
        return _binary(np.fromiter(values, np.int32, len(flows)))

    return {
        "views": views,
        "clock": clock_of(run),
        "times": _binary(run.times),
        "workers": {worker: run.name(worker) for worker in run.workers},
        "order": run.workers,
        "cited": sorted({n for violation in run.violations for n in violation.events}),
        "flows": {
            "number": column(flow.number for flow in flows),
            "src": column(flow.src for flow in flows),
            "dst": column(flow.dst for flow in flows),
            "sent": column(flow.sent for flow in flows),
            "arrived": column(flow.arrived for flow in flows),
            "end": column(flow.end for flow in flows),
        },
    }


def _events(run: Recording) -> dict[str, Any]:
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
        "type": _binary(codes),
        "task": _binary(tasks),
        "worker": _binary(run.workers_of),
        "before": _binary(causes.before),
        "elsewhere": _binary(causes.elsewhere),
        "text": [details(record[3], record[4]) for record in run.records],
    }


def details(type: tracing.EventType, values: tuple[Any, ...]) -> str:
    """The values of an event in one line; ids of contexts and messages as maker:count."""
    said = []
    for name, value in zip(type.fields, values, strict=True):
        if value is None or value == ():
            continue
        if name == "context" or (name == "message" and isinstance(value, int) and value >= 0):
            value = context_name(value)
        elif name == "about" and isinstance(value, tuple):
            value = ",".join(_id(item) for item in value)
        elif (
            isinstance(value, tuple) and len(value) == 2 and all(isinstance(v, int) for v in value)
        ):
            value = f"{value[0]}:{value[1]}"
        said.append(f"{name}={value}")
    text = " ".join(said)
    return text if len(text) <= _DETAILS_MOST else text[: _DETAILS_MOST - 1] + "…"


def _id(item: object) -> str:
    if isinstance(item, int) and item >= 1 << 48:
        return context_name(item)
    if isinstance(item, tuple):
        return ":".join(str(part) for part in item)
    return str(item)


def _binary(values: NDArray[Any]) -> dict[str, str]:
    kind = {"float64": "f8", "int32": "i4", "int16": "i2"}[values.dtype.name]
    little = values.astype(values.dtype.newbyteorder("<"))
    return {"dtype": kind, "bdata": base64.b64encode(little.tobytes()).decode("ascii")}


def _pack(value: Any) -> str:
    return _packed(json.dumps(value, separators=(",", ":")))


def _packed(text: str) -> str:
    # Without the time of day, so that equal runs give equal pages.
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode("ascii")


def _script(id: str, text: str) -> str:
    return f'<script type="text/plain" id="{id}">{_packed(text)}</script>'
