"""The slider through a pass: what each node of the joint graph looks like after so many events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from squall.sim.pictures.flows import seconds
from squall.sim.pictures.palette import (
    BAND,
    BLUE,
    DULL,
    FONT,
    INK,
    MUTED,
    ORANGE,
    PALE,
    PAPER,
    SKY,
    WHITE,
)
from squall.sim.pictures.passes import Pass, Place, Progress, advance, moments, start
from squall.sim.pictures.recording import Recording

if TYPE_CHECKING:
    import networkx as nx

#: stops of the slider, and node colours in all of them together
STOPS_MOST = 120
_CELLS_MOST = 60_000

WAITING, READY, RAN, UNNEEDED = WHITE, SKY, BLUE, DULL


def colors(
    joint: nx.MultiDiGraph, places: list[Place], progress: Progress, newest: int
) -> list[str]:
    """The colour of each node: ``newest`` is the event at which the last one ran."""
    found = []
    for place in places:
        ran = progress.ran.get(place)
        if ran is not None:
            found.append(ORANGE if ran == newest else RAN)
        elif not joint.nodes[place]["needed"]:
            found.append(UNNEEDED)
        elif progress.waits[place] <= 0:
            found.append(READY)
        else:
            found.append(WAITING)
    return found


def counts(joint: nx.MultiDiGraph, places: list[Place], progress: Progress) -> list[str]:
    """How many gradients each node still waits for; "" if it has run, or never will."""
    return [
        "" if place in progress.ran or not joint.nodes[place]["needed"] else str(progress.waits[place])
        for place in places
    ]  # fmt: skip


def stops(
    run: Recording, one: Pass, joint: nx.MultiDiGraph, places: list[Place]
) -> tuple[list[dict[str, Any]], list[Any], str]:
    """The steps of the slider, a frame of the picture for each, and notes for the reader."""
    happened = [moment for moment in moments(one) if moment[2] in joint]
    most = max(2, min(STOPS_MOST, _CELLS_MOST // max(len(places), 1), len(happened)))
    each = -(-len(happened) // most) if happened else 1
    sampled = f"the slider stops at every {each} events of the pass" if each > 1 else ""
    progress = start(joint)
    steps: list[dict[str, Any]] = []
    frames: list[Any] = []

    told = ""

    def stop(event: int) -> None:
        nonlocal told
        name = str(len(frames))
        frames.append(
            go.Frame(
                name=name,
                traces=[2],
                data=[
                    {
                        "type": "scatter",
                        "marker": {
                            "color": colors(joint, places, progress, event),
                            "line": {"color": INK, "width": 1.2},
                        },
                        "text": counts(joint, places, progress),
                    }
                ],
            )
        )
        since_text = seconds(run.time_s(event) - run.time_s(one.first))
        how = {"frame": {"duration": 0, "redraw": True}, "mode": "immediate"}
        steps.append(
            {
                "method": "animate",
                # Many things may happen at one instant: the time is told where it has moved on.
                "label": f"#{event}" if since_text == told else f"#{event} +{since_text}",
                "args": [[name], {**how, "transition": {"duration": 0}}],
                "value": str(event),
            }
        )
        told = since_text

    stop(one.first)
    for index, moment in enumerate(happened, 1):
        advance(progress, joint, moment)
        if index % each == 0 or index == len(happened):
            stop(moment[0])
    return steps, frames, sampled


def slider(steps: list[dict[str, Any]]) -> dict[str, Any]:
    """The slider itself, below the picture."""
    return {
        "steps": steps,
        "active": 0,
        "x": 0.09,
        "len": 0.9,
        "y": 0,
        "yanchor": "top",
        "pad": {"t": 14, "b": 4},
        "currentvalue": {
            "prefix": "up to event (+ time since the pass began, where it moves on): ",
            "font": {"size": 12.5, "color": INK},
            "xanchor": "left",
        },
        "font": {"size": 10, "color": MUTED},
        "bgcolor": BAND,
        "activebgcolor": SKY,
        "bordercolor": PALE,
        "tickcolor": PALE,
        "ticklen": 3,
        "minorticklen": 2,
    }


def buttons() -> dict[str, Any]:
    """Play and pause, beside the slider."""
    at_once = {"transition": {"duration": 0}, "mode": "immediate"}
    play = {"frame": {"duration": 160, "redraw": True}, "fromcurrent": True, **at_once}
    stop = {"frame": {"duration": 0, "redraw": True}, **at_once}
    return {
        "type": "buttons",
        "direction": "left",
        "showactive": False,
        "x": 0,
        "xanchor": "left",
        "y": 0,
        "yanchor": "top",
        "pad": {"t": 42, "l": 0, "r": 0},
        "bgcolor": PAPER,
        "bordercolor": PALE,
        "font": {"size": 12, "color": INK, "family": FONT},
        "buttons": [
            {"label": "▶", "method": "animate", "args": [None, play]},
            {"label": "❚❚", "method": "animate", "args": [[None], stop]},
        ],
    }
