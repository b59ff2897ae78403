"""Replaced modules show what the real ones show, and tell of it what those tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from squall.properties.sim.scripts.api import (
    WALK,
    Difference,
    allowed,
    differences,
    judge,
    module_names,
    page,
)
from squall.properties.support.commands import python
from squall.properties.support.paths import DOCS

if TYPE_CHECKING:
    from squall.properties.sim.scripts.api import Found


def walked(file: Path, *before: str, after: tuple[str, ...] = ()) -> Found:
    told = python(*before, str(WALK), *after, str(file), *module_names())
    assert file.exists(), told.stdout + told.stderr
    return json.loads(file.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def test_what_scripts_find_is_what_stock_has(tmp_path: Path) -> None:
    stock = walked(tmp_path / "stock.json")
    ours = walked(tmp_path / "ours.json", "-m", "squall", "run", after=("--",))
    assert stock["torch.distributed.rpc"] and ours["torch.distributed.rpc"]
    assert judge(list(differences(stock, ours)), allowed()) == []


def test_the_page_is_that_of_the_list() -> None:
    assert (DOCS / "api.md").read_text(encoding="utf-8") == page(), "make api"


def test_what_is_not_listed_is_told() -> None:
    is_class, is_module = {"kind": "class", "parameters": ["a"]}, {"kind": "module"}
    stock: Found = {"m": {"a": is_class, "b": is_module, "c": is_module}}
    ours: Found = {"m": {"a": {**is_class, "parameters": []}, "c": is_module, "d": is_module}}
    found = list(differences(stock, ours))
    assert found == [("parameters", "m:a"), ("missing", "m:b"), ("extra", "m:d")]
    listed = [
        Difference("extra", ("m:*",), "why"),
        Difference("missing", ("m:b", "m:c"), "why"),
        Difference("name", ("m:a",), "why", everywhere=False),
    ]
    assert judge(found, listed) == ["parameters m:a", "nothing is missing m:c"]
