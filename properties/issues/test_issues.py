"""Public issues: scripts that say whose they are, verdicts that agree with what was printed, and squall's word."""

from __future__ import annotations

import pytest

from squall.model.events.run import WRONG_GROUPS
from squall.properties.findings.finding import findings
from squall.properties.findings.results import NO_LINE, load, version_key
from squall.properties.issues.issue import (
    MOST_LINES,
    STOCK,
    Issue,
    IssueError,
    issues,
    line_of,
    under_squall,
)
from squall.properties.issues.page import PAGE, text
from squall.properties.support.commands import python

ALL = issues()
KEPT = load(STOCK)
LINES = {name: one.stock for name, one in KEPT[max(KEPT, key=version_key)].items()}


def test_each_issue_is_small_stands_alone_and_was_run_on_stock() -> None:
    assert len(ALL) >= 20
    assert LINES.keys() == {one.name for one in ALL}
    folders = {one.name for one in findings()}
    for one in ALL:
        script = one.script.read_text("utf-8")
        assert len(script.splitlines()) <= MOST_LINES and "squall" not in script
        assert one.verdict.finding in {"", *folders}


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_a_verdict_says_what_stock_pytorch_printed(one: Issue) -> None:
    is_wrong = not LINES[one.name].startswith("OK ")
    assert is_wrong == (one.verdict.verdict == "reproduced")


@pytest.mark.sampled(3)
@pytest.mark.usefixtures("compiled_engine")
@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_squall_does_what_stock_does_or_says_what_is_wrong(one: Issue) -> None:
    played = under_squall(one)
    assert played.outcome == one.verdict.squall
    if played.outcome in WRONG_GROUPS:
        assert played.found and one.script.name in played.found[0], "with the place in the script"
        assert one.verdict.verdict == "reproduced", "nothing that is right is called wrong"
    if played.outcome not in WRONG_GROUPS or played.line:
        assert played.line == LINES[one.name]


def test_the_page_is_made_of_the_issues() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert written == text(), "python -m squall.properties.issues page writes it anew"


def test_a_script_that_prints_twice_or_an_unknown_name_is_refused() -> None:
    assert line_of("a warning\nOK one\n") == "OK one" and line_of("nothing") == ""
    with pytest.raises(IssueError, match="one line, not 2"):
        line_of("OK one\nBUG two\n")
    done = python("-m", "squall.properties.issues", "stock", "pytorch-1")
    assert done.returncode == 2 and "no issue pytorch-1; there are " in done.stderr
    assert NO_LINE not in done.stdout
