"""The notebooks as they are kept: with what they show, in order, and found by whoever looks for them.

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
#: bytes; GitHub shows no large ones
MOST = 1_200_000
FIGURE = "application/vnd.plotly.v1+json"


def read(path: Path) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def test_they_are_numbered_from_one_on():
    assert [path.name[:3] for path in NOTEBOOKS] == [
        f"{n:02}_" for n in range(1, len(NOTEBOOKS) + 1)
    ]
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_it_shows_is_kept(path):
    notebook = read(path)
    assert path.stat().st_size < MOST
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    again = f"make keep-notebooks ARGS={path.name[:2]}"
    assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)], again
    for cell in cells:
        assert cell["outputs"] or not shows("".join(cell["source"])), again
        assert "execution" not in cell["metadata"]  # when it was run
        for output in cell["outputs"]:
            assert output["output_type"] != "error"
            assert output.get("name") != "stderr"
            data = output.get("data", {})
            assert ("image/png" in data) == (FIGURE in data), again
            shown = json.dumps({**output, "data": {**data, "image/png": ""}})
            assert not re.search(r"/(tmp|root|home|Users)/", shown)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"


def shows(source: str) -> bool:
    """Whether a cell ends with something that is printed or shown."""
    last = ast.parse(source).body[-1]
    return isinstance(last, ast.Expr) or "print(" in ast.unparse(last)


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
