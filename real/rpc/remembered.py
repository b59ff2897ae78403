"""Tables of what is over, for whatever comes late: they keep the latest entries only."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

#: how many entries a table keeps
REMEMBERED_MAX = 65_536


def remember(table: dict[K, V], key: K, value: V) -> None:
    """Note ``key``; the oldest entry makes way where there are too many."""
    table[key] = value
    if len(table) > REMEMBERED_MAX:
        del table[next(iter(table))]
