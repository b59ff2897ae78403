"""What items of a plan say in words: links, times, and how a way is closed."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from squall.model.events.names import worker_named
from squall.sim.faults.limits import Cut

#: what becomes of messages where their way is closed
CUTS: dict[Cut, str] = {
    "drop": "messages are lost",
    "hold": "messages wait",
    "fail": "sending fails",
}


def ends(src: int | None, dst: int | None, names: Mapping[int, str]) -> str:
    """`` from worker0 to worker1``; "" for any."""
    sides = (("from", src), ("to", dst))
    return "".join(f" {way} {worker_named(names, at)}" for way, at in sides if at is not None)


def window(from_s: float, until_s: float | None) -> str:
    """`` from 1 s to 2 s``; "" for always."""
    start = f" from {from_s:g} s" if from_s else ""
    if until_s is None:
        return f"{start} on" if start else ""
    return f"{start} {'to' if start else 'until'} {until_s:g} s"


def listed(things: Collection[object]) -> str:
    """``a, b and c``; of nothing ``none``."""
    *most, last = map(str, things) if things else ("none",)
    return f"{', '.join(most)} and {last}" if most else last
