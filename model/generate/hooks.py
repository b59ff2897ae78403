"""Draws the hooks of one place: mostly one, sometimes several in a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from squall.model.program.choices import Choices

H = TypeVar("H")

#: how many places with hooks have more than one, and how many more at most
_SEVERAL = 0.4
_MOST_MORE = 2


def draw_hooks(choices: Choices, name: str, usable: Sequence[H]) -> tuple[H, ...]:
    """One or more of the ``usable`` hooks, in the order in which they are registered."""
    hooks: tuple[H, ...] = (choices.pick(name, usable),)
    if choices.chance(f"several {name}s", _SEVERAL):
        for _ in range(choices.integer(f"more {name}s", 1, _MOST_MORE)):
            hooks += (choices.pick(f"another {name}", usable),)
    return hooks
