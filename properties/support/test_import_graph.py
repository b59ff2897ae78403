"""The graph of imports sees those that a linter passes over."""

import sys
from pathlib import Path

import pytest

from squall.properties.support.import_graph import circles, import_graph


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "drawn_by_a_test"
    (folder / "inner").mkdir(parents=True)
    for file in ("__init__.py", "inner/__init__.py"):
        (folder / file).touch()
    return folder


def test_each_kind_of_import_is_an_edge(package: Path) -> None:
    name = package.name
    (package / "a.py").write_text(f"from {name} import b\nimport sys, {name}.c\n", encoding="utf-8")
    (package / "b.py").write_text("def late():\n    from .inner import d\n", encoding="utf-8")
    (package / "c.py").write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from .inner.d import thing\nelse:\n    from . import b\n",
        encoding="utf-8",
    )
    (package / "inner" / "d.py").write_text(
        "from ..a import thing\nfrom .. import a\n", encoding="utf-8"
    )
    edges = {
        (a.removeprefix(f"{name}."), b.removeprefix(f"{name}."), *kinds)
        for a, b, kinds in import_graph(name).edges(data="kinds")
    }
    assert edges == {
        ("a", "b", "module"),
        ("a", "c", "module"),
        ("b", "inner.d", "function"),
        ("c", "inner.d", "typing"),
        ("c", "b", "module"),
        ("inner.d", "a", "module"),
    }
    assert name not in sys.modules  # it is read, not run


def test_circles_are_told_edge_by_edge(package: Path) -> None:
    name = package.name
    (package / "a.py").write_text("from . import b\n", encoding="utf-8")
    (package / "b.py").write_text("def late():\n    from . import a\n", encoding="utf-8")
    (package / "c.py").write_text("from . import a\n", encoding="utf-8")
    assert circles(import_graph(name)) == [
        [f"{name}.a -> {name}.b (module)", f"{name}.b -> {name}.a (function)"]
    ]


def test_an_unknown_package_is_an_error() -> None:
    with pytest.raises(ModuleNotFoundError):
        import_graph("drawn_by_nobody")
