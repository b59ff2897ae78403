"""All pictures of a run in one file that opens from disk, without a network."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import plotly.graph_objects as go
from jinja2 import Environment, PackageLoader, StrictUndefined
from plotly.offline import get_plotlyjs

from squall.model.events.names import in_words, type_named
from squall.sim.names import PlotlyFrom
from squall.sim.pictures import glossary, page_payload
from squall.sim.pictures.contexts import contexts
from squall.sim.pictures.flows import flows_of, seconds
from squall.sim.pictures.futures import futures
from squall.sim.pictures.graph import graph
from squall.sim.pictures.odds import Odds, odds
from squall.sim.pictures.palette import DARK
from squall.sim.pictures.passes import nodes_of, passes
from squall.sim.pictures.plotly_js import linked
from squall.sim.pictures.recording import Recording, recording
from squall.sim.pictures.rrefs import rrefs
from squall.sim.pictures.space_time import space_time
from squall.sim.pictures.waits import waits
from squall.sim.pictures.work import work

#: passes whose graphs a page holds at most: the largest ones
GRAPHS_MOST = 12

#: Ids of style sheets that plotly's library of maps inserts as it is loaded, unless they are there. No
#: map is drawn here, and the policy of squall serve does not allow a sheet that a script writes.
MAP_STYLES = re.compile(r'getElementById\("([0-9a-f]{64})"\)')

TEMPLATES = Environment(
    loader=PackageLoader("squall.sim.pictures"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=StrictUndefined,
)


def styles() -> tuple[str, ...]:
    """The text of each style sheet in a page. The empty one is plotly's, which fills it by rules."""
    return (colors() + TEMPLATES.get_template("page.css").render(), "")


def colors() -> str:
    """The colours of all pages, light and dark, as a style sheet."""
    return TEMPLATES.get_template("colors.css").render()


def own_script(name: str) -> str:
    """The text of a script of these pages."""
    return TEMPLATES.get_template(name).render(dark=DARK)


#: each needs those before it
_SCRIPTS = ("packed", "colors", "strip", "labels", "rows", "calls", "events", "causes", "page")


def scripts() -> tuple[str, ...]:
    """The text of each script in a page: the same in all, since what they draw is data."""
    return (
        get_plotlyjs(),
        *(own_script(f"{name}.js") for name in _SCRIPTS),
    )


def page(
    run: object,
    *,
    found: Odds | None = None,
    on_view: Callable[[str], object] | None = None,
    plotly: PlotlyFrom = "inline",
) -> str:
    """The page as HTML: a summary, every view, and a table of the events that can be searched.

    ``found``: the probability of the failure over time, if it was measured. ``on_view`` is called
    with the name of each view before it is drawn. ``plotly``: see
    :data:`squall.sim.names.PlotlyFrom`; with ``file`` the caller puts the file there
    (:func:`squall.sim.pictures.plotly_js.write_plotly`). Raises ValueError for another one.
    """
    link = linked(plotly)
    run = recording(run)
    tell = on_view or (lambda name: None)
    views: list[dict[str, Any]] = []
    drawn: dict[str, str] = {}

    def add(id: str, name: str, figures: Iterable[tuple[str, Callable[[], go.Figure]]]) -> None:
        tell(name)
        parts = []
        for number, (label, draw) in enumerate(figures):
            key = f"view-{id}-{number}"
            parts.append({"id": key, "name": label})
            drawn[key] = page_payload.packed(draw().to_json())
        views.append({"id": id, "name": name, "parts": parts})

    add("space_time", "space and time", [("", lambda: space_time(run, clock="order"))])
    views.append({"id": "calls", "name": "call tree", "parts": []})
    add("work", "work", [("", lambda: work(run, clock="order"))])
    add("graph", "autograd graph", _graphs(run))
    add("rrefs", "RRefs", [("", lambda: rrefs(run, clock="order"))])
    add("contexts", "contexts and passes", [("", lambda: contexts(run, clock="order"))])
    add("futures", "futures", [("", lambda: futures(run, clock="order"))])
    add("waits", "who waits", [("", lambda: waits(run))])
    if found is not None:
        add("odds", "odds of the failure", [("", lambda: odds(found, clock="order"))])
    tell("events")
    return TEMPLATES.get_template("page.html").render(
        run=run,
        in_words=lambda text: in_words(str(text), run.called.workers),
        facts=_facts(run),
        cause=_cause(run),
        messages=_messages(run),
        notable=_notable(run),
        views=views,
        figures=drawn,
        core=page_payload.packed_json(page_payload.core(run, views)),
        events=page_payload.packed_json(page_payload.events(run)),
        calls=page_payload.packed_json(page_payload.calls(run)),
        style=styles()[0],
        glossary=glossary.WORDS,
        linked=link,
        scripts=scripts() if link is None else scripts()[1:],
        never_styled=MAP_STYLES.findall(get_plotlyjs()),
    )


def _graphs(run: Recording) -> list[tuple[str, Callable[[], go.Figure]]]:
    every = passes(run)
    sizes = {one.number: nodes_of(one) for one in every}
    shown = sorted(every, key=lambda one: (-sizes[one.number], one.number))[:GRAPHS_MOST]
    if not shown:
        return [("", lambda: graph(run))]
    of = f", the largest {len(shown)} of {len(every)}" if len(shown) < len(every) else ""

    def draw(number: int) -> Callable[[], go.Figure]:
        return lambda: graph(run, number=number)

    return [
        (
            f"pass {one.number} in the {run.called.context(one.context)}: {sizes[one.number]} nodes{of}",
            draw(one.number),
        )
        for one in shown
    ]


def _facts(run: Recording) -> dict[str, str]:
    """What the head of the page says of the run."""
    return {
        "virtual time": f"{run.ended_s:.6f} s",
        "workers": f"{len(run.workers):,}",
        "events": f"{len(run):,}",
        "messages": f"{len(flows_of(run)):,}",
        **run.facts,
        "digest": run.digest,
    }


def _cause(run: Recording) -> dict[str, str | list[str]] | None:
    """What decided that the run fails: the sentences, and what both runs did."""
    said, _, rest = run.cause.partition("\n\n")
    return {"said": said.split("\n"), "rest": rest} if run.cause else None


def _messages(run: Recording) -> list[tuple[str, int]]:
    """How many messages there are of each type, the most frequent ones first."""
    counts = Counter(type_named(flow.type) for flow in flows_of(run))
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _notable(run: Recording) -> list[str]:
    """What became of the messages, in a few words each."""
    flows = flows_of(run)
    dropped = sum(flow.dropped >= 0 for flow in flows)
    notable = [f"{dropped:,} dropped"] if dropped else []
    copies = sum(bool(flow.copy) for flow in flows)
    notable += [f"{copies:,} duplicates"] if copies else []
    slowest = max((flow.latency_s for flow in flows), default=0.0)
    return [*notable, f"the slowest took {seconds(slowest)}"]
