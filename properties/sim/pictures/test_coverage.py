"""The picture of where a campaign has been: what is drawn is what was counted."""

from __future__ import annotations

import math

from squall.model.coverage.behaviour import SETS
from squall.model.coverage.growth import Seen
from squall.model.coverage.history import History, history_of
from squall.model.coverage.sometimes import SITUATIONS
from squall.sim import pictures
from squall.sim.search.campaign import before, run_campaign
from squall.sim.search.draw import Settings


def campaign() -> History:
    seeds, settings = range(40), Settings("rough", stats=True)
    found = run_campaign(seeds, settings, first=before(seeds, settings))
    parts = {"cover": found.cover, "seeds": found.scenarios}
    return history_of(found.seen, found.sometimes_counts(), parts, "rough")


def test_every_set_has_a_line_and_every_situation_a_mark() -> None:
    history = campaign()
    figure = pictures.coverage(history)
    lines = {trace.name: trace for trace in figure.data if trace.mode == "lines"}
    for name, what in SETS.items():
        assert tuple(lines[what].x) == history.at
        assert tuple(lines[what].y) == history.sets[name]
    first, never = (trace for trace in figure.data if trace.mode == "markers")
    assert {*first.y, *never.y} == set(SITUATIONS)
    assert dict(zip(first.y, first.x, strict=True)) == {
        name: number for name, number in history.reached.items() if number is not None
    }
    assert first.y and list(first.x) == sorted(first.x), "the earliest first"
    assert set(never.x) <= {history.scenarios}
    (mark,) = figure.layout.shapes
    assert mark.x0 == history.parts["cover"]
    named = [each for each in figure.layout.annotations if each.text == "end of the cover"]
    assert [each.x for each in named] == [math.log10(history.parts["cover"])]


def test_a_campaign_without_scenarios_is_drawn_all_the_same() -> None:
    figure = pictures.coverage(history_of(Seen(), dict.fromkeys(SITUATIONS, 0), {"seeds": 0}))
    (never,) = [trace for trace in figure.data if trace.mode == "markers" and trace.y]
    assert set(never.y) == set(SITUATIONS)
