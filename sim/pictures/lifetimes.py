"""Pictures made of rows: an object with a lifetime, and a bar for each of its states."""

from __future__ import annotations

from dataclasses import dataclass, field

import plotly.graph_objects as go

from squall.sim.pictures.canvas import Canvas, Clock, Fill, bands
from squall.sim.pictures.labels import duration, hover, nothing, table
from squall.sim.pictures.palette import INK, PAPER
from squall.sim.pictures.recording import Recording

#: rows that are drawn at most
ROWS_MOST = 400
#: rows that are shown at first: as many as have room for their names on a page
WINDOW = 14


@dataclass(frozen=True)
class State:
    """A state and how it is drawn."""

    name: str
    color: str
    pattern: str = ""
    outline: str | None = None


@dataclass
class Row:
    """One object: its states in order, each with the event where it began."""

    label: str
    worker: int
    states: list[tuple[int, State]] = field(default_factory=list)
    #: the event at which it ended, -1: it is still there at the end of the run
    ended: int = -1
    #: (event, symbol, text): what happened to it
    marks: list[tuple[int, str, str]] = field(default_factory=list)
    #: rows of one group lie together
    group: object = None
    #: what it is, for readers who hover over it
    about: str = ""
    height: float = 0.66

    @property
    def first(self) -> int:
        return self.states[0][0] if self.states else -1

    def enter(self, event: int, state: State) -> None:
        """It is in ``state`` from this event on."""
        if not self.states or self.states[-1][1] is not state:
            self.states.append((event, state))


def draw_rows(
    run: Recording,
    rows: list[Row],
    states: list[State],
    *,
    clock: Clock,
    title: str,
    empty: str,
    things: str,
) -> go.Figure:
    """A picture with a row for each of ``rows``, in their order.

    Of more than :data:`ROWS_MOST` those that were still there at the end come first, and the
    picture says so.
    """
    if not rows:
        return nothing(title, empty)
    canvas = Canvas(run, clock, title)
    every = len(rows)
    if every > ROWS_MOST:
        groups: dict[object, list[Row]] = {}
        for row in rows:
            groups.setdefault(row.group, []).append(row)
        kept: list[Row] = []
        left = sorted(groups.values(), key=lambda g: all(row.ended >= 0 for row in g))
        for group in left:
            if len(kept) < ROWS_MOST:
                kept += group
        ids = {id(row) for row in kept}
        rows = [row for row in rows if id(row) in ids]
        canvas.note(
            f"{len(rows):,} of {every:,} {things} are drawn, those without an end before all others"
        )
    place = {id(row): float(index) for index, row in enumerate(rows)}
    extents: list[tuple[float, float]] = []
    last: object = object()
    for row in rows:
        at = place[id(row)]
        if row.group != last or row.group is None:
            extents.append((at - 0.5, at + 0.5))
            last = row.group
        else:
            extents[-1] = (extents[-1][0], at + 0.5)
    canvas.shapes += bands(extents)
    for state in states:
        _state(canvas, state, rows, place)
    _marks(canvas, rows, place)
    left_over = [row for row in rows if row.ended < 0]
    if left_over:
        canvas.note(f"{len(left_over):,} never ended")
    labels = {place[id(row)]: row.label for row in rows}
    # Of a run that failed those before its failure, of which the page shows that part.
    begun = sum(row.first <= run.opened_at for row in rows)
    figure = canvas.figure(
        labels,
        window=WINDOW,
        first=min(max(begun - WINDOW, 0), max(len(rows) - WINDOW, 0)),
        barmode="overlay",
        legend_traceorder="normal",
    )
    if len(rows) < 8:
        figure.update_yaxes(range=[7.6, -0.7])
    figure.update_yaxes(tickfont_size=11.5 if len(rows) <= 20 else 10)
    return figure


def _state(canvas: Canvas, state: State, rows: list[Row], place: dict[int, float]) -> None:
    run = canvas.run
    spans: list[tuple[int, int]] = []
    at: list[float] = []
    hovers: list[str] = []
    heights: list[float] = []
    for row in rows:
        ends = [event for event, _ in row.states[1:]]
        ends.append(row.ended if row.ended >= 0 else run.last)
        for (event, found), end in zip(row.states, ends, strict=True):
            if found is not state:
                continue
            spans.append((event, max(end, event)))
            at.append(place[id(row)])
            heights.append(row.height)
            how_long = duration(run, event, end)
            is_last = row.states[-1][0] == event
            if is_last and row.ended < 0:
                how_long += ", to the end of the run"
            hovers.append(
                table(
                    [
                        ("on", run.name(row.worker)),
                        ("from", hover(run, event)),
                        ("to", hover(run, end)),
                        ("for", how_long),
                        ("", row.about),
                    ],
                    head=f"{row.label}: {state.name}",
                )
            )
    if spans:
        canvas.bars(
            spans,
            at,
            hovers,
            fill=Fill(state.color, state.pattern, state.outline or state.color),
            name=f"{state.name} ({len(spans):,})",
            height=max(heights),
        )


_MARKS = {
    "triangle-up": "message sent or taken",
    "diamond": "gradients",
    "line-ns": "known worker",
    "x": "error or loss",
    "star": "registered at the owner",
    "circle": "accepted as a child",
    "arrow-bar-left": "attached",
}


def _marks(canvas: Canvas, rows: list[Row], place: dict[int, float]) -> None:
    by_symbol: dict[str, list[tuple[int, float, str]]] = {}
    for row in rows:
        for event, symbol, text in row.marks:
            by_symbol.setdefault(symbol, []).append((event, place[id(row)], text))
    for symbol, marks in by_symbol.items():
        canvas.marks(
            [event for event, _, _ in marks],
            [at for _, at, _ in marks],
            [f"{text}<br>{hover(canvas.run, event)}" for event, _, text in marks],
            marker={
                "symbol": symbol,
                "size": 9,
                "color": INK,
                "line": {"width": 1.5, "color": INK}
                if symbol.startswith("line")
                else {"width": 1, "color": PAPER},
            },
            name=f"{_MARKS.get(symbol, symbol)} ({len(marks):,})",
        )
