"""What somebody gives to a public function, checked before anything runs: one message that names the
argument, its value, and what would be right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from squall.sim.scenario import World


def check_call(args: object, kwargs: object, join: object, workers: int | None) -> None:
    """What each rank is called with, and the name under which it joins a group.

    Raises TypeError and ValueError.
    """
    if isinstance(args, str | bytes) or not isinstance(args, Sequence):
        raise TypeError(f"args is {args!r}, expected a list or a tuple of what follows the rank")
    if kwargs is not None and not (
        isinstance(kwargs, Mapping) and all(isinstance(name, str) for name in kwargs)
    ):
        raise TypeError(f"kwargs is {kwargs!r}, expected a dictionary of values by name, or None")
    if join is not None:
        _check_join(join, workers)


def _check_join(join: object, workers: int | None) -> None:
    right = 'expected a name with the rank in it, such as "worker{rank}", or None'
    if not isinstance(join, str):
        raise TypeError(f"join is {join!r}, {right}")
    try:
        names = {join.format(rank=rank) for rank in (0, 1)}
    except (LookupError, ValueError, AttributeError):
        raise ValueError(f"join is {join!r}, {right}") from None
    if not join or (len(names) < 2 and workers != 1):
        raise ValueError(f"join is {join!r}, the same for all ranks, {right}")


def check_seeds(seeds: object) -> range:
    """The seeds that are meant. Raises TypeError and ValueError."""
    right = "expected how many, at least 1, or a range of seeds"
    if isinstance(seeds, range):
        each = seeds
    elif isinstance(seeds, int) and not isinstance(seeds, bool):
        each = range(seeds)
    else:
        raise TypeError(f"seeds is {seeds!r}, {right}")
    if not each or min(each) < 0:
        raise ValueError(f"seeds is {seeds!r}, {right}")
    return each


def check_count(name: str, value: object, least: int = 1) -> None:
    """An integer of at least ``least``. Raises TypeError and ValueError."""
    right = f"expected an integer of at least {least}"
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}, {right}")
    if value < least:
        raise ValueError(f"{name} is {value!r}, {right}")


def check_seconds(name: str, value: object) -> None:
    """A number of seconds, 0 or more. Raises TypeError and ValueError."""
    right = "expected a number of seconds, 0 or more"
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}, {right}")
    if not value >= 0:
        raise ValueError(f"{name} is {value!r}, {right}")


def check_latency(latency: Any) -> None:
    """As ``squall run --latency`` has it, or None. Raises ValueError."""
    if latency is not None:
        World(latency=latency)
