"""Figures as notebooks show them: title, notes and legend one below the other."""

from __future__ import annotations

import plotly.graph_objects as go

from squall.sim.pictures.canvas import room_above
from squall.sim.pictures.narrow import narrow
from squall.sim.pictures.words import heading

NAMES = [f"a name of a kind, number {n}" for n in range(7)]


def figure(title: str) -> go.Figure:
    found = go.Figure([go.Scatter(x=[0], y=[0], name=name) for name in NAMES])
    return found.update_layout(title=heading(title), margin_t=40)


def test_notes_are_broken_into_lines_and_the_legend_has_room_below():
    found = narrow(figure(f'<b>title</b><br><span style="color:#123456">{"word " * 50}</span>'))
    head, *notes = found.layout.title.text.split("<br>")
    assert head == "<b>title</b>" and len(notes) == 3 and notes[-1].endswith("</span>")
    assert found.layout.margin.t == room_above(3, 3)
    assert found.layout.height == 450 + found.layout.margin.t - 40


def test_what_has_room_stays_as_it_is():
    roomy = figure("<b>title</b>").update_layout(margin_t=200)
    assert narrow(go.Figure(roomy)) == roomy
