"""The documentation agrees with the code: paths, links, functions, the picture of the rooms."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from squall.properties.support.paths import DOCS, ROOT
from squall.properties.support.rooms import PAGE, page

PAGES = [*sorted(DOCS.glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
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
def test_paths_and_links_lead_somewhere(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    paths = [path for path in _PATH.findall(text) if not (ROOT / path).exists()]
    links = [link for link in _LINK.findall(text) if not (file.parent / link).exists()]
    assert (paths, links) == ([], [])


def test_the_picture_of_the_rooms_is_that_of_the_source() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert page(written) == written, "make architecture makes it anew"
