"""Files are UTF-8, whatever the locale says."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from squall.properties.support.paths import ROOT

PACKAGES = ("benchmarks", "model", "properties", "real", "sim")
#: by function: how many arguments by place leave its encoding unsaid
UNSAID = {"read_text": 0, "write_text": 1}


def by_the_locale(source: str) -> Iterator[int]:
    """Lines that read or write a text in the encoding of the locale."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            said = any(each.arg in ("encoding", None) for each in node.keywords)
            if not said and len(node.args) == UNSAID.get(node.func.attr):
                yield node.lineno


def test_no_text_is_read_or_written_in_the_encoding_of_the_locale() -> None:
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    assert len(files) > 1000
    found = {
        f"{file.relative_to(ROOT)}:{line}"
        for file in files
        for line in by_the_locale(file.read_text(encoding="utf-8"))
    }
    assert not found


def test_one_would_be_seen() -> None:
    assert list(by_the_locale("a.read_text()\nb.write_text('x', newline='')")) == [1, 2]
    assert not list(by_the_locale("a.read_text('utf-8')\nb.write_text('x', encoding='utf-8')"))
