"""The documentation agrees with the code: paths, functions, rules, the picture of the packages."""

from __future__ import annotations

import ast
import fnmatch
import re
from pathlib import Path

import pytest

from squall.model.checks.rref_allowances import EXCEPTIONS
from squall.properties.findings.finding import findings
from squall.properties.support.packages import PAGE, page
from squall.properties.support.paths import DOCS, ROOT
from squall.sim.names import PROFILES
from squall.sim.search.mutants.registry import MUTANTS

PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
#: a function of a file, as the walk names it; a path; a link
_FUNCTION = re.compile(r"`([\w/]+\.py):([\w.]+)`")
_PATH = re.compile(r"`((?:real|model|sim|properties|examples|benchmarks|squall)/[\w./]*)`")
_LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


def names_in(file: Path) -> set[str]:
    """What a file defines: functions, classes, methods and names at its top."""
    found: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {
                f"{node.name}.{part.name}"
                for part in node.body
                if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
            }
    return found


def test_the_walk_names_functions_that_there_are() -> None:
    hops = _FUNCTION.findall((DOCS / "walk.md").read_text(encoding="utf-8"))
    assert len(hops) > 30
    missing = [
        f"{file}:{name}"
        for file, name in hops
        if not (ROOT / file).exists() or name not in names_in(ROOT / file)
    ]
    assert missing == []


@pytest.mark.parametrize("file", PAGES, ids=lambda file: file.name)
def test_paths_that_are_named_are_there(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert [path for path in _PATH.findall(text) if not (ROOT / path).exists()] == []


def names_of_tests_and_planted_bugs() -> tuple[set[str], set[str]]:
    """Names of all tests, and of all planted bugs."""
    files = (ROOT / "properties").rglob("test_*.py")
    tests = {name for file in files for name in names_in(file) if name.startswith("test_")}
    return tests, set(MUTANTS)


def test_pytorchs_defects_among_the_rules_are_findings() -> None:
    text = (DOCS / "divergences.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| \*finding\*([^|]*)\|", text, re.M)
    assert len(rows) > 10
    names = {one.name for one in findings()}
    for rule, rest in rows:
        told = re.findall(r"^ \(`([\w-]+)`", rest) or [rule]
        assert set(told) <= names, f"{rule}: properties/findings has no {told}"


def test_what_is_said_to_show_a_divergence_is_there() -> None:
    text = (DOCS / "divergences.md").read_text(encoding="utf-8")
    tests, planted = names_of_tests_and_planted_bugs()
    part = text.partition("# Where the port follows the property")[2]
    rows = [line.strip("|").split(" | ") for line in part.splitlines() if line.startswith("|")][2:]
    assert len(rows) > 10 and {len(row) for row in rows} == {5}
    for row in rows:
        shown, known = row[-1], 0
        for name in re.findall(r"`(test_\w+)`", shown):
            assert name in tests, f"{row[0]}: no test {name}"
            known += 1
        for name in re.findall(r"`([a-z]+-[a-z-]+\*?)`", shown):
            assert fnmatch.filter(planted, name), f"{row[0]}: no planted bug {name}"
            known += 1
        for profile in re.findall(r"squall fuzz --faults (\w+)", shown):
            assert profile in PROFILES, f"{row[0]}: no profile {profile}"
            known += 1
        assert known or _LINK.search(shown), f"{row[0]}: nothing shows it"
    words = [
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
    ]
    assert f"list of {words[len(EXCEPTIONS) - 1]} exceptions" in " ".join(part.split())


def test_the_picture_of_the_rooms_is_that_of_the_source() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert page(written) == written, "make architecture makes it anew"
