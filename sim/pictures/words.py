"""What pictures say in words: titles, texts for hovering, names and durations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import plotly.graph_objects as go

from squall.sim.pictures.flows import seconds
from squall.sim.pictures.palette import LAYOUT, MUTED
from squall.sim.pictures.recording import Recording


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


def context_name(context: int) -> str:
    """A context or autograd message id in few words: its maker and its count, ``2:0``."""
    return f"{context >> 48}:{context & (1 << 48) - 1}"


def duration(run: Recording, first: int, last: int) -> str:
    """How long it is from one event to another, for readers."""
    return seconds(run.time_s(last) - run.time_s(first))
