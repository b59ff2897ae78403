"""What all pictures share: the axis of time, the lanes of workers, the notes.

Everything that is drawn is drawn *at events*. The clock says where an event is: at its virtual
time, or at its number, which shows order where many things happen at one instant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from squall.sim.pictures.labels import heading, hover
from squall.sim.pictures.palette import BAND, BLACK, LAYOUT, MUTED, VERMILION, text_on
from squall.sim.pictures.recording import Recording

Clock = Literal["auto", "time", "order"]
CLOCKS = ("auto", "time", "order")

#: beyond so many drawn things a picture is drawn by WebGL
WEBGL_FROM = 3_000
#: beyond so many, a sample of them is drawn
DRAWN_MOST = 60_000
#: names of lanes that are written at most: more would lie over each other
LABELS_MOST = 40
#: pixels that a legend has beside the names of lanes, on a page of ordinary width
_WIDTH = 1180
#: order is the better clock if the instants at which something happens fall into so small a
#: share of the places that a picture has for them
_PLACES, _CROWDED = 400, 0.25
#: and if so many of all events lie at one of these places
_PILED = 1 / 3


def legend_rows(traces: Sequence[Any], width: float) -> int:
    """How many rows the legend takes where so many pixels are beside the names of lanes; a guess."""
    names = [len(t.name or "") for t in traces if t.showlegend is not False]
    if not names or len(traces) < 2:
        return 0
    each = 44 + 6.6 * max(names)
    if sum(44 + 6.6 * name for name in names) <= width:
        return 1
    return -(-len(names) // max(int(width // each), 1))


def room_above(notes: int, rows: int) -> int:
    """Pixels for a title, so many lines of notes below it, and so many rows of a legend."""
    return 40 + 18 * notes + 20 * rows


def clock_of(run: Recording, clock: Clock = "auto") -> Literal["time", "order"]:
    """The clock to draw a run by. Raises ValueError for an unknown one.

    ``auto`` is virtual time, unless nearly everything happens in a small part of it (a timeout after
    a minute of silence), or a good part of all events at one instant (no latency): then the order of
    events says more.
    """
    if clock not in CLOCKS:
        raise ValueError(f"clock: {clock!r} is unknown, expected one of {', '.join(CLOCKS)}")
    if clock != "auto":
        return clock
    times = run.times
    if len(times) < 2 or times[-1] <= times[0]:
        return "order"
    places = np.floor((times - times[0]) / (times[-1] - times[0]) * _PLACES)
    used, counts = np.unique(places, return_counts=True)
    few = len(used) < _CROWDED * min(len(np.unique(times)), _PLACES)
    return "order" if few or counts.max() > _PILED * len(times) else "time"


@dataclass(frozen=True)
class Fill:
    """How a bar looks: its colour, one of plotly's patterns, and the colour of that and of its edge."""

    color: str
    pattern: str = ""
    outline: str | None = None


@dataclass
class Canvas:
    """A figure under construction. ``x`` places events; :meth:`figure` finishes it."""

    run: Recording
    clock: Clock = "auto"
    title: str = ""
    height: int | None = None
    traces: list[Any] = field(default_factory=list)
    #: what a reader must be told: samples, limits
    notes: list[str] = field(default_factory=list)
    shapes: list[dict[str, Any]] = field(default_factory=list)
    annotations: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.used = clock_of(self.run, self.clock)

    def x(self, events: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float64]:
        """Where events are on the axis; -1 is a gap between two lines."""
        numbers = np.asarray(events, dtype=np.int64)
        if self.used == "order":
            return np.where(numbers < 0, np.nan, numbers.astype(np.float64))
        times = self.run.times
        if not len(times):
            return np.full(len(numbers), np.nan)
        return np.where(numbers < 0, np.nan, times[np.clip(numbers, 0, len(times) - 1)])

    def at(self, event: int) -> float:
        """Where one event is on the axis."""
        return float(self.x([event])[0])

    def lines(
        self,
        events: Sequence[int],
        y: Sequence[float | None],
        *,
        color: str,
        name: str,
        dash: str = "solid",
        width: float = 1.5,
        webgl: bool = False,
        **more: Any,
    ) -> None:
        """Lines through events; -1 among them, with None in ``y``, begins another one."""
        make = go.Scattergl if webgl else go.Scatter
        # WebGL draws dashes slowly, and broken lines of ten thousand messages say nothing.
        line = {"color": color, "width": width} | ({} if webgl else {"dash": dash})
        self.traces.append(
            make(
                x=self.x(events),
                y=np.asarray(y, dtype=np.float64),
                mode="lines",
                line=line,
                name=name,
                hoverinfo="skip",
                meta={"events": True},
                **more,
            )
        )

    def marks(
        self,
        events: Sequence[int],
        y: Sequence[float],
        texts: Sequence[str] | None,
        *,
        marker: Mapping[str, Any],
        name: str,
        webgl: bool = False,
        custom: Sequence[Any] | None = None,
        **more: Any,
    ) -> None:
        """A mark at each event, with a text that hovering shows."""
        make = go.Scattergl if webgl else go.Scatter
        self.traces.append(
            make(
                x=self.x(events),
                y=np.asarray(y, dtype=np.float64),
                mode=more.pop("mode", "markers"),
                marker=dict(marker),
                name=name,
                hovertext=texts,
                hoverinfo="text" if texts is not None else "skip",
                customdata=np.asarray(events) if custom is None else np.asarray(custom),
                meta={"events": True},
                **more,
            )
        )

    def bars(
        self,
        spans: Sequence[tuple[int, int]],
        y: Sequence[float],
        hovers: Sequence[str],
        *,
        fill: Fill,
        name: str,
        height: float = 0.7,
        labels: Sequence[str] | None = None,
    ) -> None:
        """A bar from one event to another in each lane ``y``, with a label inside if it fits."""
        starts = self.x([span[0] for span in spans])
        ends = self.x([span[1] for span in spans])
        if self.used == "order":
            ends = np.maximum(ends, starts + 0.9)
        marker: dict[str, Any] = {"color": fill.color}
        marker["line"] = {"color": fill.outline or fill.color, "width": 1}
        if fill.pattern:
            marker["pattern"] = {"shape": fill.pattern, "fgcolor": fill.outline or MUTED, "size": 5}
            marker["pattern"]["fillmode"] = "overlay"
            marker["pattern"]["fgopacity"] = 0.55
        text: dict[str, Any] = {}
        if labels is not None:
            text = {"text": labels, "textposition": "inside"}
            text["textfont"] = {"size": 11, "color": text_on(fill.color)}
        self.traces.append(
            go.Bar(
                base=starts,
                x=ends - starts,
                y=np.asarray(y, dtype=np.float64),
                width=height,
                orientation="h",
                marker=marker,
                name=name,
                hovertext=hovers,
                hoverinfo="text",
                insidetextanchor="start",
                textangle=0,
                constraintext="inside",
                customdata=np.asarray(spans, dtype=np.int64).reshape(-1, 2),
                meta={"events": True, "spans": True},
                **text,
            )
        )

    def note(self, text: str) -> None:
        """Tell the reader something about the picture itself."""
        if text not in self.notes:
            self.notes.append(text)

    def violations(self, y_of: Callable[[int], float]) -> None:
        """Mark the events that violations cite, and those that decided a failure: a ring in the lane of the event."""
        self._rings("what decided it", {n: [text] for n, text in self.run.marks.items()}, y_of)
        cited: dict[int, list[str]] = {}
        for violation in self.run.violations:
            for number in violation.events:
                if 0 <= number < len(self.run):
                    cited.setdefault(number, []).append(f"{violation.property}: {violation.what}")
        self._rings("violation", cited, y_of)

    def _rings(
        self, name: str, cited: Mapping[int, list[str]], y_of: Callable[[int], float]
    ) -> None:
        if not cited:
            return
        head = "violated" if name == "violation" else name
        events = list(cited)
        workers = self.run.workers_of
        self.marks(
            events,
            [y_of(int(workers[number])) for number in events],
            [
                f"<b>{head}</b><br>" + "<br>".join(cited[n]) + f"<br>{hover(self.run, n)}"
                for n in events
            ],
            marker={
                "symbol": "circle-open",
                "size": 17,
                "color": VERMILION,
                "line": {"width": 3, "color": BLACK},
            },
            name=name,
        )

    def figure(
        self,
        lanes: Mapping[float, str] | None = None,
        *,
        window: int | None = None,
        first: int = 0,
        last: float | None = None,
        **layout: Any,
    ) -> go.Figure:
        """The figure; ``lanes`` names places on the vertical axis, of which ``window`` are shown
        at first (None: all), from number ``first`` on. ``last``: where the axis ends, if not at the last name."""
        figure = go.Figure(self.traces)
        base = deepcopy(dict(LAYOUT))
        base["xaxis"]["title"]["text"] = self._axis_title()
        if self.used == "time":
            base["xaxis"]["exponentformat"] = "SI"
            base["xaxis"]["ticksuffix"] = "s"
        base["uniformtext"] = {"mode": "hide", "minsize": 8}
        base["meta"] = {"clock": self.used, "title": self.title, "notes": self.notes}
        if lanes is not None:
            low, high = min(lanes, default=0) - 0.7, max(lanes, default=0) + 0.7
            if last is not None:
                low, high = -0.7, last + 0.7
            if window is not None and window < len(lanes):
                inside = sorted(lanes)[first : first + window]
                low, high = inside[0] - 0.7, inside[-1] + 0.5
                shown_rows = f"rows {first + 1:,} to {first + window:,} of {len(lanes):,}"
                self.notes.insert(0, f"{shown_rows}: drag for the others, double-click for all")
            base["meta"]["lanes"] = [list(lanes), list(lanes.values())]
            shown = [at for at in lanes if low <= at <= high]
            labelled = shown[:: max(1, -(-len(shown) // LABELS_MOST))]
            if len(labelled) == len(shown):
                labelled = list(lanes)
            base["yaxis"] |= {
                "tickvals": labelled,
                "ticktext": [lanes[at] for at in labelled],
                "range": [high, low],
            }
        if self.height is not None:
            base["height"] = self.height
        notes = " · ".join(self.notes)
        text = f"<b>{self.title}</b>" if self.title else ""
        if notes:
            text += ("<br>" if text else "") + f'<span style="color:{MUTED}">{notes}</span>'
        base["title"] = heading(text)
        base["margin"]["t"] = room_above(1 if notes else 0, legend_rows(self.traces, _WIDTH))
        figure.update_layout(base, shapes=self.shapes, annotations=self.annotations)
        if layout:
            figure.update_layout(**layout)
        return figure

    def _axis_title(self) -> str:
        if self.used == "time":
            return "virtual time"
        return "events in their order"


def faded(color: str, count: int) -> str:
    """A colour that lets ``count`` lines over each other be told apart: the more, the paler."""
    alpha = min(0.6, max(0.05, 900 / max(count, 1)))
    red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha:.3f})"


def bands(lanes: Sequence[tuple[float, float]]) -> list[dict[str, Any]]:
    """Pale shading of every second of ``lanes`` (from, to), across the whole width."""
    return [
        {
            "type": "rect",
            "xref": "paper",
            "x0": 0,
            "x1": 1,
            "yref": "y",
            "y0": low,
            "y1": high,
            "fillcolor": BAND,
            "line": {"width": 0},
            "layer": "below",
        }
        for index, (low, high) in enumerate(lanes)
        if index % 2
    ]


def sample(count: int, most: int, keep: Iterable[int] = ()) -> list[int]:
    """Which of ``count`` things to draw: all, or evenly spread ones and all of ``keep``."""
    if count <= most:
        return list(range(count))
    step = -(-count // most)
    return sorted(set(range(0, count, step)) | set(keep))
