"""Figures as notebooks show them: title, notes and legend one below the other."""

from __future__ import annotations

import plotly.graph_objects as go

from squall.sim.pictures.canvas import room_above
from squall.sim.pictures.labels import heading
from squall.sim.pictures.narrow import narrow

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


def test_long_names_of_rows_leave_less_room_for_the_legend():
    rows = figure("<b>title</b>").update_layout(yaxis_ticktext=["a row with a very long name" * 2])
    assert narrow(rows).layout.margin.t > narrow(figure("<b>title</b>")).layout.margin.t


def test_names_beside_arrows_do_not_lie_over_each_other():
    marks = go.Scatter(x=[0, None, 100], y=[0, None, 1], mode="markers")
    names = go.Scatter(
        x=[1, 2, 50, 3], y=[0, 0, 0, 1], text=["forward (train.py:8)"] * 4, mode="text"
    )
    found = narrow(go.Figure([marks, names]).update_layout(yaxis_range=[1.7, -0.7], margin_t=40))
    assert [bool(text) for text in found.data[1].text] == [True, False, True, True]
