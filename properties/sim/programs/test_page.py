"""docs/programs.md names every kind of operation and act, and what it names is there."""

from __future__ import annotations

import re

from squall.model.program.acts.kind import kinds as act_kinds
from squall.model.program.operations import KINDS
from squall.properties.support.paths import DOCS, ROOT

_PAGE = (DOCS / "programs.md").read_text(encoding="utf-8")
_WORDS = frozenset(re.findall(r"`([^`]+)`", _PAGE))


def test_every_kind_of_operation_and_act_is_named() -> None:
    assert not {*KINDS, *act_kinds()} - _WORDS


def test_files_and_folders_are_there() -> None:
    paths = [word for word in _WORDS if re.match(r"(model|sim|properties)/", word)]
    assert paths
    assert all((ROOT / path).exists() for path in paths)
