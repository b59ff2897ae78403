"""The page about programs: it is of today's programs, and says something of everything."""

from __future__ import annotations

from typing import get_args

import pytest

from squall.model.program import program
from squall.model.program.acts.kind import kinds as act_kinds
from squall.model.program.operations import KINDS
from squall.model.program.options import all_options, options_of
from squall.model.program.stories import DRAWN, SIZED, WIDE
from squall.properties.support.paths import ROOT
from squall.sim.programs.page import (
    Section,
    about,
    act_sections,
    described,
    kind_sections,
    option_sections,
    page,
    parts,
    story_sections,
)


def test_the_page_is_of_today() -> None:
    written = (ROOT / "docs" / "programs.md").read_text(encoding="utf-8")
    assert written == page(), "make programs"


@pytest.mark.parametrize(
    "section",
    [*kind_sections(), *story_sections(), *act_sections(), *option_sections()],
    ids=lambda section: section.title,
)
def test_everything_says_what_it_is(section: Section) -> None:
    assert section.text
    silent = [entry.name for entry in section.entries if not entry.text]
    assert not silent, "a docstring, or the word about, says what it is"


def test_nothing_is_left_out() -> None:
    told = [entry.name for section in kind_sections() for entry in section.entries]
    assert sorted(told) == sorted(KINDS)
    told = [entry.name for section in story_sections() for entry in section.entries]
    assert sorted(told) == sorted([*DRAWN, *SIZED, *WIDE])
    told = [entry.name for section in act_sections() for entry in section.entries]
    assert sorted(told) == sorted(act_kinds())
    for name in ("Call", "How", "Relay", "Grad", "Keep", "Hook", "FailingCall", "FailsBy"):
        assert tuple(options_of(name).words) == get_args(getattr(program, name))
    assert {part.name for part in parts()} >= {"Program", "Trainer", "Step", "Op", "Backward"}


def test_words_are_explained_where_they_are_declared() -> None:
    assert options_of("Keep").about == "how long the trainer keeps a reference"
    assert options_of("Keep").words["use"] == "until its last use"
    assert "Dtype" not in all_options(), "its words need no explanation"


def test_what_is_registered_is_told_in_its_own_words() -> None:
    class Act:
        def perform(self) -> None:
            """Waits for ``x``, and
            a :class:`squall.real.Future`."""

    (entry,) = described({"wait": Act()})
    assert entry == ("wait", "Waits for `x`, and a `Future`.", ())
    assert about(KINDS["sum"]) == "The sum of all elements."
