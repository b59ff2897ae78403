"""The notebooks as they are kept: clean, in order, and found by whoever looks for them.

What they compute is tested by ``make test-notebooks``, which runs each in a kernel of its own.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

import squall
from squall.properties.support.commands import ROOT

FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
#: bytes; a figure that was kept by accident is larger
MOST = 40_000


def read(path: Path) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def test_they_are_numbered_from_one_on():
    assert [path.name[:3] for path in NOTEBOOKS] == [
        f"{n:02}_" for n in range(1, len(NOTEBOOKS) + 1)
    ]
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_output_is_kept(path):
    notebook = read(path)
    assert path.stat().st_size < MOST
    for cell in notebook["cells"]:
        assert not cell.get("outputs"), f"strip it: jupyter nbconvert --clear-output {path.name}"
        assert cell.get("execution_count") is None
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_each_begins_with_a_title_and_leads_to_others_that_exist(path):
    cells = read(path)["cells"]
    assert cells[0]["cell_type"] == "markdown" and cells[0]["source"][0].startswith("# ")
    text = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    for target in re.findall(r"\]\(([\w./]+)\)", text):
        assert (FOLDER / target).exists(), target
    for name in re.findall(r"`((?:docs|properties)/[\w./]+)`", text):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_they_import_only_what_is_public(path):
    for cell in read(path)["cells"]:
        if cell["cell_type"] != "code":
            continue
        for node in ast.walk(ast.parse("".join(cell["source"]))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [each.name for each in node.names] if isinstance(node, ast.Import) else []
            assert not [name for name in names if name.startswith("squall.")]
            if names == ["squall"] and isinstance(node, ast.ImportFrom):
                assert {each.name for each in node.names} <= set(squall.__all__)


def test_the_documentation_leads_to_each():
    text = (ROOT / "docs" / "notebooks.md").read_text(encoding="utf-8")
    for path in NOTEBOOKS:
        assert f"notebooks/{path.name}" in text
