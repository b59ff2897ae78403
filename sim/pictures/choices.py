"""The choices of an exploration: a tree whose paths are executions, from left to right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import plotly.graph_objects as go

from squall.sim.pictures.labels import heading, nothing, table
from squall.sim.pictures.palette import BLUE, INK, LAYOUT, MUTED, PALE
from squall.sim.world.choice_tree import Choice, ChoiceTree

#: pixels of a row of the picture, and around it
_ROW, _AROUND, _LEAST = 15, 110, 220
#: branches beyond which words are only shown to whoever hovers
_MOST_WORDS = 150


class _Branch(NamedTuple):
    """A line from one choice to what follows it: tried, or left out."""

    depth: int
    from_row: float
    to_row: float
    words: str
    tried: bool


def choices(tree: ChoiceTree, title: str = "Every order") -> go.Figure:
    """The tree of choices. Each path from the left to the right is an execution; a step that was
    never tried, since what it leads to only differs in what came first of independent steps, is grey.

    Points at which nothing but one step could go are not drawn.
    """
    tree.over()
    branches: list[_Branch] = []
    rows = _lay_out(tree.root, 0, 0, branches)[1]
    if not branches:
        return nothing(title, "there was never a choice")
    figure = go.Figure()
    for tried, color, name in ((False, PALE, "left out"), (True, BLUE, "tried")):
        kept = [branch for branch in branches if branch.tried == tried]
        figure.add_trace(_lines(kept, color, name))
        figure.add_trace(_ends(kept, color, len(branches) <= _MOST_WORDS))
    executions = sum(each.ended for each in tree.root.walk())
    left_out = sum(not branch.tried for branch in branches)
    told = f"{executions:,} executions, {left_out:,} branches left out"
    figure.update_layout(
        dict(LAYOUT),
        title=heading(f"<b>{title}</b><br>{told}"),
        height=max(_LEAST, _ROW * rows) + _AROUND,
        xaxis={"title": "choice", "showgrid": False, "zeroline": False, "dtick": 1},
        yaxis={"visible": False, "autorange": "reversed"},
        meta={"clock": "order", "title": title, "notes": [told]},
    )
    return figure


def _lay_out(choice: Choice, depth: int, row: int, branches: list[_Branch]) -> tuple[float, int]:
    """Add the branches behind ``choice``, whose first free row is ``row``: its own row, in the middle
    of what is behind it, and the next free one."""
    while len(choice.enabled) == 1 and choice.tried:
        (choice,) = choice.tried.values()
    if not choice.enabled:
        return row, row + 1
    ends: list[tuple[float, str, bool]] = []
    for name, words in choice.enabled:
        after = choice.tried.get(name)
        if after is None:
            at, row = row, row + 1
            ends.append((at, words, False))
        else:
            middle, row = _lay_out(after, depth + 1, row, branches)
            ends.append((middle, words, True))
    own = (ends[0][0] + ends[-1][0]) / 2
    branches += (_Branch(depth, own, at, words, tried) for at, words, tried in ends)
    return own, row


def _lines(branches: list[_Branch], color: str, name: str) -> go.Scatter:
    x: list[float | None] = []
    y: list[float | None] = []
    for branch in branches:
        x += [branch.depth, branch.depth + 0.25, branch.depth + 1, None]
        y += [branch.from_row, branch.to_row, branch.to_row, None]
    return go.Scatter(
        x=x,
        y=y,
        mode="lines",
        line={"color": color, "width": 1.5, "dash": "solid" if name == "tried" else "dot"},
        name=name,
        hoverinfo="skip",
    )


def _ends(branches: list[_Branch], color: str, words: bool) -> go.Scatter:
    return go.Scatter(
        x=[branch.depth + 1 for branch in branches],
        y=[branch.to_row for branch in branches],
        mode="markers+text" if words else "markers",
        marker={"color": color, "size": 6},
        text=[f"{branch.words} " for branch in branches],
        textposition="top left",
        textfont={"size": 9, "color": INK if color != PALE else MUTED},
        hovertext=list(_told(branches)),
        hoverinfo="text",
        showlegend=False,
    )


def _told(branches: list[_Branch]) -> Iterator[str]:
    for branch in branches:
        what = "tried" if branch.tried else "left out: independent of what was tried before it"
        yield table([("step", branch.words), ("", what)], head=f"choice {branch.depth + 1}")
