"""Where checks give up, they say why."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from pathlib import Path

import pytest

from squall.model.checks import excuses
from squall.model.checks.excuses import EXCUSES
from squall.properties.support.commands import squall
from squall.properties.support.paths import DOCS, ROOT
from squall.sim.search.campaign import run_campaign
from squall.sim.search.draw import Settings

CHECKS = sorted(
    file
    for file in (ROOT / "model" / "checks").glob("*.py")
    if file.stem not in ("excuses", "exceptions", "registry")
)
#: names by which a check asks whether something failed, or cannot be known
FAILURES = {
    "crash",
    "deaths",
    "explained",
    "faulty",
    "gave_up",
    "gone",
    "gone_after",
    "hangs",
    "hit",
    "leaving",
    "lost",
    "stuck",
    "unfed",
    "unknown",
}


def silent(source: str) -> list[str]:
    """The conditions that ask for a failure, and then do nothing but leave off, without excuse."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.If) or len(node.body) != 1:
            continue
        leaves_off = node.body[0]
        if not isinstance(leaves_off, ast.Return | ast.Continue):
            continue
        if isinstance(leaves_off, ast.Return) and leaves_off.value is not None:
            continue
        asked = {each.id for each in ast.walk(node.test) if isinstance(each, ast.Name)}
        asked |= {each.attr for each in ast.walk(node.test) if isinstance(each, ast.Attribute)}
        if asked & FAILURES and "excused" not in asked:
            found.append(ast.unparse(node.test))
    return found


@pytest.mark.parametrize("file", CHECKS, ids=lambda file: file.stem)
def test_no_check_gives_up_silently(file: object) -> None:
    assert silent(file.read_text(encoding="utf-8")) == []  # type: ignore[attr-defined]


def test_a_silent_one_is_seen() -> None:
    assert silent("def check(run):\n    if run.stuck:\n        return\n") == ["run.stuck"]
    excused = "def check(run):\n    if run.stuck and excused(run, NO_END):\n        return\n"
    assert silent(excused) == []


def test_every_excuse_has_a_sentence_and_a_name_of_its_own() -> None:
    names = [excuse.name for excuse in EXCUSES]
    assert len(set(names)) == len(names)
    assert all(len(excuse.reason.split()) > 5 for excuse in EXCUSES)
    declared = {value for value in vars(excuses).values() if isinstance(value, excuses.Excuse)}
    assert declared <= set(EXCUSES)


def test_a_campaign_counts_them_alike_each_time() -> None:
    counted = [run_campaign(range(30), Settings("storm")).excused for _ in range(2)]
    assert counted[0] == counted[1]
    assert counted[0]["fault"] > 0
    assert set(counted[0]) <= {excuse.name for excuse in EXCUSES}


def test_the_command_lists_and_counts_them() -> None:
    done = squall("properties", "--excuses", "--seeds", "0:6", "--json")
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)["excuses"]
    assert [each["name"] for each in listed] == [excuse.name for excuse in EXCUSES]
    assert set(listed[0]["used"]) == {"plain", "rough", "storm"}
    without = json.loads(squall("properties", "--excuses", "--json").stdout)["excuses"]
    assert all(each["used"] is None and each["reason"] for each in without)


def test_the_page_lists_every_excuse(tmp_path: Path) -> None:
    written = (DOCS / "divergences.md").read_text(encoding="utf-8")
    for excuse in EXCUSES:
        assert f"| {excuse.name} | " in written and written.count(excuse.reason) == 1
    file = tmp_path / "page.md"
    file.write_text(written, encoding="utf-8")
    done = squall("properties", "--excuses", "--seeds", "0:3", "--page", str(file))
    assert done.returncode == 0, done.stderr
    before, _, rest = written.partition("<!-- excuses: begin -->")
    head = re.sub(r"0:\d+", "0:3", rest.partition("| no end")[0])
    again = file.read_text(encoding="utf-8")
    assert again.startswith(f"{before}<!-- excuses: begin -->{head}")
    assert again.endswith(rest.partition("<!-- excuses: end -->")[2])
    refused = squall("properties", "--excuses", "--page", str(file))
    assert refused.returncode == 2 and "--page" in refused.stderr


def test_what_tolerance_and_zeros_excuse_is_counted() -> None:
    """In the campaign that the page tells of, each is used now and then."""
    names = {"tolerance", "zeros for no gradient"}
    excused: Counter[str] = Counter()
    for first in range(0, 4_000, 100):
        excused += run_campaign(range(first, first + 100), first=()).excused
        if names <= excused.keys():
            return
    pytest.fail(f"4,000 scenarios used {sorted(excused)}, not both of {sorted(names)}")
