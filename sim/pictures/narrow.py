"""A figure as a notebook shows it: narrower than a page, so that its notes and its legend take more lines."""

from __future__ import annotations

import textwrap

import plotly.graph_objects as go

from squall.sim.pictures.canvas import legend_rows, room_above

#: pixels beside the names of lanes, and characters of notes that stand in a line
_WIDTH, _LINE = 700, 100
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
    above = room_above(notes.count("<br>") + 1 if cut else 0, legend_rows(figure.data, _WIDTH))
    more = above - (figure.layout.margin.t or 0)
    if more > 0:
        height = (figure.layout.height or _HEIGHT) + more
        figure.update_layout(margin_t=above, height=height)
    return figure
