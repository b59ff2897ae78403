"""How likely a failure still is, from each point of a run on.

The run is repeated up to a point, and from there on every random choice draws from another
seed. Where the share of such runs that fail jumps, something was decided.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

import plotly.graph_objects as go

from squall.sim.pictures.canvas import Canvas, Clock
from squall.sim.pictures.labels import hover, table
from squall.sim.pictures.palette import BLUE, SKY, VERMILION
from squall.sim.pictures.recording import Recording, recording
from squall.sim.scenario import Scenario
from squall.sim.scenarios.replay import replay
from squall.sim.world.latency import parse_latency
from squall.sim.world.steering import Steering, Tail, Turn
from squall.sim.world.watch import Watcher

#: real seconds that one of the runs may take
_RUN_S = 60.0
_Z = 1.96


class TailSeed(Watcher):
    """Lets every generator draw from another seed once ``after`` events have happened.

    A choice that was made before stays: the runs share their first events to the last detail.
    """

    def __init__(self, after: int, tail: int) -> None:
        super().__init__()
        self._left = after
        self._tail = tail
        self._streams: list[Random] = []
        self._made = 0
        if after <= 0:
            self._left = 0

    def stream(self, stream: Random) -> None:
        self._streams.append(stream)
        if not self._left:
            self._seed(stream)

    def event(self, record: tuple[Any, ...]) -> None:
        if self._left:
            self._left -= 1
            if not self._left:
                for stream in self._streams:
                    self._seed(stream)

    def _seed(self, stream: Random) -> None:
        self._made += 1
        stream.seed(repr(("tail", self._tail, self._made)))


class Point(NamedTuple):
    """Of ``runs`` whose tail was drawn anew after ``event`` events, ``failed`` failed."""

    event: int
    failed: int
    runs: int

    @property
    def share(self) -> float:
        return self.failed / self.runs if self.runs else math.nan

    def interval(self) -> tuple[float, float]:
        """Wilson's interval: where the probability is, with 95 % confidence."""
        if not self.runs:
            return (0.0, 1.0)
        n, p = self.runs, self.share
        middle = (p + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
        half = _Z * math.sqrt(p * (1 - p) / n + _Z**2 / (4 * n * n)) / (1 + _Z**2 / n)
        return (max(0.0, middle - half), min(1.0, middle + half))


@dataclass
class Odds:
    """What :func:`measure` found. ``failure`` names what counted: (property, what)."""

    run: Recording
    failure: tuple[str, str]
    points: list[Point]
    #: there were to be more points, before these
    interrupted: bool = False

    @property
    def jump(self) -> tuple[Point, Point] | None:
        """The two neighbours between which the probability rises most; None if it never does."""
        pairs = list(zip(self.points, self.points[1:], strict=False))
        if not pairs:
            return None
        best = max(pairs, key=lambda pair: pair[1].share - pair[0].share)
        return best if best[1].share > best[0].share else None


def measure(
    scenario: Scenario,
    *,
    points: int = 16,
    times: int = 10,
    first: int = 0,
    last: int | None = None,
    on_run: Callable[[int, int], object] | None = None,
) -> Odds:
    """Re-seed the tail of a failing run from ``points`` points, ``times`` times each.

    The points are spread evenly over the events ``first`` to ``last`` (by default all).
    ``on_run(done, of)`` is called after each run; an interrupt gives the points that there are
    so far. A bug that the scenario names is for the caller to plant. Raises ValueError if the
    scenario does not fail, or for fewer than 2 points or 1 time.
    """
    if points < 2:
        raise ValueError(f"points: expected 2 or more, got {points}")
    if times < 1:
        raise ValueError(f"times: expected 1 or more, got {times}")
    steering = Steering()
    base = replay(scenario, watcher=steering, seconds=_RUN_S)
    if not base.violations:
        raise ValueError("this scenario does not fail: there is no probability to follow")
    wanted = base.violations[0]
    run = recording(base)
    end = len(run) if last is None else min(last, len(run))
    chosen = sorted({round(first + (end - first) * i / (points - 1)) for i in range(points)})
    found: list[Point] = []
    done, of = 0, len(chosen) * times
    odds = Odds(run, (wanted.property, wanted.what), found)
    # From the end to the beginning: what an interrupt leaves is a piece without gaps.
    try:
        for at in reversed(chosen):
            failed = 0
            for tail in range(times):
                if at >= len(run):
                    failed += 1  # nothing is left to be drawn anew
                else:
                    watcher = _otherwise(scenario, steering, at, tail)
                    again = replay(scenario, watcher=watcher, seconds=_RUN_S)
                    failed += any(v.property == wanted.property for v in again.violations)
                done += 1
                if on_run is not None:
                    on_run(done, of)
            found.insert(0, Point(at, failed, times))
    except KeyboardInterrupt:
        if not found:
            raise
        odds.interrupted = True
    return odds


def _otherwise(scenario: Scenario, first: Steering, at: int, tail: int) -> Watcher:
    """Lets a run go on otherwise after ``at`` events: with other draws, or where nothing is drawn, as what was
    made small is, with messages that take any time."""
    schedule = scenario.faults.schedule
    drawn = parse_latency(scenario.world.latency).is_random or schedule.order != "fifo"
    if drawn or not first.events_at:
        return TailSeed(at, tail)
    return Steering((Turn(bisect_left(first.events_at, at), Tail("messages", tail)),))


def odds(found: Odds, *, clock: Clock = "order") -> go.Figure:
    """The probability of the failure over the run it was found in."""
    canvas = Canvas(found.run, clock, f"How likely the failure still is: {found.failure[0]}")
    _draw_interval(canvas, found.points)
    _draw_shares(canvas, found.points)
    if found.jump is not None:
        before, after = (min(point.event, found.run.last) for point in found.jump)
        _mark(canvas, before, after)
    canvas.note(f"{found.points[0].runs} runs a point, each with its tail drawn anew")
    if found.interrupted:
        canvas.note("interrupted: the points before these are missing")
    figure = canvas.figure()
    figure.update_yaxes(
        range=[-0.03, 1.05], tickformat=".0%", title_text="runs that fail", showgrid=True
    )
    return figure


def _events(canvas: Canvas, points: Sequence[Point]) -> list[int]:
    return [min(point.event, canvas.run.last) for point in points]


def _draw_interval(canvas: Canvas, points: Sequence[Point]) -> None:
    x = canvas.x(_events(canvas, points))
    low = [point.interval()[0] for point in points]
    high = [point.interval()[1] for point in points]
    canvas.traces.append(
        go.Scatter(
            x=[*x, *x[::-1]],
            y=[*high, *low[::-1]],
            fill="toself",
            fillcolor="rgba(86,180,233,0.25)",
            line={"width": 0},
            hoverinfo="skip",
            name="95 % interval",
            meta={"events": True},
        )
    )


def _draw_shares(canvas: Canvas, points: Sequence[Point]) -> None:
    events = _events(canvas, points)
    canvas.traces.append(
        go.Scatter(
            x=canvas.x(events),
            y=[point.share for point in points],
            mode="lines+markers",
            line={"color": BLUE, "width": 2.5},
            marker={"size": 8, "color": BLUE, "line": {"color": SKY, "width": 1}},
            name="share of runs that fail",
            hovertext=[
                table(
                    [
                        ("after", f"{point.event:,} events, {hover(canvas.run, event)}"),
                        ("interval", "{:.0%} to {:.0%}".format(*point.interval())),
                    ],
                    head=f"{point.failed} of {point.runs} runs fail",
                )
                for point, event in zip(points, events, strict=True)
            ],
            hoverinfo="text",
            customdata=events,
            meta={"events": True},
        )
    )


def _mark(canvas: Canvas, before: int, after: int) -> None:
    """Show where the probability jumps."""
    run = canvas.run
    canvas.shapes.append(
        {
            "type": "rect",
            "x0": canvas.at(before),
            "x1": canvas.at(after),
            "yref": "paper",
            "y0": 0,
            "y1": 1,
            "fillcolor": "rgba(213,94,0,0.12)",
            "line": {"color": VERMILION, "width": 1, "dash": "dot"},
            "layer": "below",
        }
    )
    canvas.note(
        f"it rises most between events {before:,} and {after:,} (t={run.time_s(before):.6f} "
        f"to {run.time_s(after):.6f} s): look there"
    )
