"""Colours: whatever is written can be read, on light pages and on dark ones."""

from __future__ import annotations

import re

import pytest

from squall.sim.pictures import palette, spans
from squall.sim.pictures.contexts import STATES as OF_CONTEXTS
from squall.sim.pictures.futures import STATES as OF_FUTURES
from squall.sim.pictures.page import colors
from squall.sim.pictures.palette import DARK, contrast, text_on
from squall.sim.pictures.rrefs import STATES as OF_RREFS

FILLS = {
    each.color
    for each in (
        *(*OF_CONTEXTS, *OF_FUTURES, *OF_RREFS),
        *(value for value in vars(spans).values() if isinstance(value, spans.Activity)),
    )
}
#: what WCAG 2 asks for: of text, and of lines and marks
TEXT, LINE = 4.5, 3.0


def dark(color: str) -> str:
    return DARK.get(color, color)


@pytest.mark.parametrize("fill", sorted(FILLS))
def test_text_on_a_fill_can_be_read(fill: str) -> None:
    text = text_on(fill)
    assert min(contrast(text, fill), contrast(dark(text), dark(fill))) >= TEXT


def test_text_and_messages_can_be_told_from_a_dark_page() -> None:
    paper, band = dark(palette.PAPER), dark(palette.BAND)
    for color in (palette.INK, palette.MUTED):
        assert min(contrast(dark(color), paper), contrast(dark(color), band)) >= TEXT
    for kind in palette.KINDS:
        assert contrast(dark(kind.color), paper) >= LINE, kind.name


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_what_pages_say_can_be_read(mode: int) -> None:
    found = dict(re.findall(r"--([\w-]+): (#\w{6})", colors().splitlines()[mode]))
    for text in ("ink", "muted", "blue", "bad", "green"):
        for band in ("paper", "band"):
            assert contrast(found[text], found[band]) >= TEXT, (text, band)
    assert contrast(found["bad"], found["bad-band"]) >= TEXT
    assert contrast(found["green"], found["good-band"]) >= TEXT
