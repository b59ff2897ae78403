"""What may import what, where a linter cannot see it: circles of files, and modules named in strings.

The order of the packages is a contract of import-linter (pyproject.toml); ``make layers`` checks it.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from squall.properties.support.import_graph import circles, import_graph
from squall.properties.support.paths import ROOT

PARTS = ("real", "model", "sim")
CONTRACTS: list[dict[str, Any]] = tomllib.loads(
    (ROOT / "pyproject.toml").read_text(encoding="utf-8")
)["tool"]["importlinter"]["contracts"]
#: what is looked for, and is only there in a checkout
PLUGINS = {f"squall.properties.{each}" for each in ("conformance", "findings", "planted")}
_MODULE = re.compile(r"squall(?:\.\w+)+")


@pytest.mark.parametrize("part", PARTS)
def test_no_files_import_each_other_in_a_circle(part: str) -> None:
    """Imports inside functions and for type checkers count as any other."""
    assert circles(import_graph(f"squall.{part}")) == []


def layers_of(container: str) -> dict[str, int]:
    """By the name of a package, how high it stands."""
    (contract,) = (
        contract
        for contract in CONTRACTS
        if contract["type"] == "layers" and contract["containers"] == [container]
    )
    layers = reversed(contract["layers"])
    return {
        name.strip(): height for height, layer in enumerate(layers) for name in layer.split("|")
    }


def strings_in(file: Path) -> Iterator[tuple[int, str]]:
    """Modules of squall that a file names in strings, docstrings left out; and in which line."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    said = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            for name in _MODULE.findall(node.value):
                yield node.lineno, name


@pytest.mark.parametrize("part", ["model", "sim"])
def test_no_string_goes_around_the_order_of_the_rooms(part: str) -> None:
    """A module that is named to be imported later stands no higher than whoever names it."""
    heights, parts = layers_of(f"squall.{part}"), layers_of("squall")
    upward = []
    for file in sorted((ROOT / part).rglob("*.py")):
        packages = file.relative_to(ROOT / part).with_suffix("").parts
        for line, name in strings_in(file):
            _, other, *inside = name.split(".")
            if parts.get(other, 0) > parts[part] and name not in PLUGINS:
                upward.append(f"{file}:{line}: {name}")
            here = heights.get(packages[0], len(heights))
            if other == part and inside and heights.get(inside[0], 0) > here:
                upward.append(f"{file}:{line}: {name}")
    assert upward == []


def test_every_room_of_sim_has_its_place() -> None:
    modules = (ROOT / "sim").glob("[!_]*.py")
    folders = (init.parent for init in (ROOT / "sim").glob("*/__init__.py"))
    found = {path.stem for path in (*modules, *folders)}
    assert found == set(layers_of("squall.sim"))


def test_a_circle_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "ring"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "a.py").write_text("def f():\n    from ring import b\n", encoding="utf-8")
    (package / "b.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ring.a import f\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    graph = import_graph("ring")
    assert not nx.is_directed_acyclic_graph(graph)
    assert circles(graph) == [["ring.a -> ring.b (function)", "ring.b -> ring.a (typing)"]]
