"""A figure as a notebook shows it: narrower than a page, so that its notes and its legend take more lines."""

from __future__ import annotations

import textwrap

import plotly.graph_objects as go

from squall.sim.pictures.canvas import legend_rows, room_above

#: pixels of a figure, and characters of notes that stand in a line
_WIDTH, _LINE = 850, 100
#: pixels of a character, and of a line
_CHARACTER, _HIGH = 6.3, 15
#: pixels of a figure that says none
_HEIGHT = 450


def narrow(figure: go.Figure) -> go.Figure:
    """``figure``, with as much room above as title and legend need."""
    head, cut, notes = (figure.layout.title.text or "").partition("<br>")
    if cut:
        opening, close, text = notes.partition(">")
        told, end, _ = text.rpartition("</span>")
        lines = textwrap.wrap(told, _LINE) if end else [notes]
        notes = f"{opening}{close}{'<br>'.join(lines)}{end}" if end else notes
        figure.update_layout(title_text=f"{head}<br>{notes}")
    named = max(map(len, figure.layout.yaxis.ticktext or ()), default=0)
    beside = _WIDTH - 40 - _CHARACTER * named
    above = room_above(notes.count("<br>") + 1 if cut else 0, legend_rows(figure.data, beside))
    more = above - (figure.layout.margin.t or 0)
    if more > 0:
        height = (figure.layout.height or _HEIGHT) + more
        figure.update_layout(margin_t=above, height=height)
    _thin_out(figure, beside, (figure.layout.height or _HEIGHT) - above - 80)
    return figure


def _thin_out(figure: go.Figure, wide: float, high: float) -> None:
    """Leave out names beside arrows that would lie over others. ``wide``, ``high``: pixels of what is drawn in."""
    named = [trace for trace in figure.data if trace.type == "scatter" and trace.mode == "text"]
    drawn = [*named, *(trace for trace in figure.data if named and trace.mode == "markers")]
    every = [
        x for trace in drawn for x in (trace.x if trace.x is not None else ()) if x is not None
    ]
    rows = figure.layout.yaxis.range
    if not every or not rows:
        return
    across = wide / (max(every) - min(every) or 1)
    down = high / (abs(rows[1] - rows[0]) or 1)
    kept: list[tuple[float, float, float]] = []
    for trace in named:
        texts = list(trace.text)
        for at, (x, y, text) in enumerate(zip(trace.x, trace.y, texts, strict=True)):
            left, top = x * across, y * down
            right = left + _CHARACTER * len(text)
            if any(abs(top - t) < _HIGH and left < r and right > lt for lt, r, t in kept):
                texts[at] = ""
            else:
                kept.append((left, right, top))
        trace.text = texts
