"""The faults of a plan in a script for stock PyTorch: settings of the script, and what it says of
those that stock PyTorch does not have."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from typing import TypeVar

from squall.sim.export.text import WIDTH
from squall.sim.faults.on_stock import StockSettings
from squall.sim.faults.plan import Plan
from squall.sim.world.schedule import FIFO

_V = TypeVar("_V")


def settings_of(plan: Plan, rpc_timeout_s: float) -> tuple[StockSettings, list[str]]:
    """What a script does for a plan, and the lines of its docstring about it."""
    settings = StockSettings(rpc_timeout_s)
    done: list[str] = []
    left: list[str] = []
    for _, _, item in plan.items():
        instead = item.on_stock(settings)
        if instead is None:
            left.append(item.told({}))
        else:
            done.append(item.told({}) + (f" (here: {instead})" if instead else ""))
    lines: list[str] = []
    if done:
        lines += ["", "What goes wrong:", *_listed(done)]
    if left:
        told = "What went wrong under squall, too, and has no counterpart on stock PyTorch:"
        lines += ["", told, *_listed(left)]
    if plan.schedule != FIFO:
        lines += ["", f"Under squall tasks ran in the order {plan.schedule.order}."]
    return settings, lines


def _listed(items: Iterable[str]) -> list[str]:
    lines: list[str] = []
    for item in items:
        lines += textwrap.wrap(
            item, WIDTH, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False
        )
    return lines


def by_rank(values: Mapping[int | None, _V], default: _V) -> str:
    """An expression for what a setting is on the worker ``rank``; None stands for all ranks."""
    general = values.get(None, default)
    special = {rank: value for rank, value in values.items() if rank is not None}
    return f"{special!r}.get(rank, {general!r})" if special else repr(general)
