"""Commands and files of the tutorial, the how-to pages and others do what it says there."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.properties.support.console import Names, commands, play
from squall.properties.support.markdown import blocks
from squall.properties.support.paths import DOCS, ROOT
from squall.sim.search.draw import Settings, draw

#: pages in which every command is run, the longest first
PAGES = [
    page
    for page in (
        DOCS / "tutorial.md",
        *sorted((DOCS / "howto").glob("*.md")),
        DOCS / "backward.md",
        DOCS / "why.md",
        DOCS / "what-if.md",
        ROOT / "README.md",
    )
    if any(block.language == "console" for block in blocks(page.read_text(encoding="utf-8")))
]
#: the seed that pages and ``--help`` have as an example
EXAMPLE = 204


@pytest.mark.sampled(1)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_prints_what_the_page_says(page: Path, tmp_path: Path) -> None:
    wrong = play(page, tmp_path)
    assert not wrong, "\n".join(wrong)


def test_the_seed_that_serves_as_an_example_has_something_to_show() -> None:
    program = draw(EXAMPLE, Settings()).program
    assert program is not None
    assert program.workers >= 4
    steps = [step for trainer in program.trainers for step in trainer.steps]
    assert sum(len(step.ops) for step in steps) >= 6
    assert any(step.backwards for step in steps)


def test_what_follows_a_command_is_expected_of_it() -> None:
    one, other = commands("$ squall a\nx\n\n…\n$ echo $?\n")
    assert (one.words, one.expected) == ("squall a", ["x", "", "…"])
    assert (other.words, other.expected) == ("echo $?", [])


@pytest.mark.parametrize(
    ("expected", "lines", "difference"),
    [
        (["a", "…", "d"], ["a", "b", "c", "d"], ""),
        (["a", "…"], ["a"], ""),
        (["in … s"], ["in 1.3 s"], ""),
        (["a"], ["a", "b"], "more comes: 'b'"),
        (["a", "c"], ["a", "b"], "expected 'c', got 'b'"),
        (["…", "c"], ["a", "b"], "expected 'c', and it does not come"),
        (["1f2e3d4c", "again 1f2e3d4c"], ["00000001", "again 00000001"], ""),
        (
            ["1f2e3d4c", "again 1f2e3d4c"],
            ["00000001", "again 00000002"],
            "expected 'again 1f2e3d4c', got 'again 00000002'",
        ),
    ],
)
def test_differences_are_noticed(expected: list[str], lines: list[str], difference: str) -> None:
    assert Names().difference(expected, lines) == difference


def test_a_name_stands_for_the_one_that_was_printed() -> None:
    names = Names()
    assert names.difference(["kept: 1f2e3d4c.json"], ["kept: 00000001.json"]) == ""
    assert names.here("squall replay 1f2e3d4c") == "squall replay 00000001"
