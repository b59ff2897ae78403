"""Draws the fault plan of a seed: which kinds of faults, and how much of each (see sim/search/draw.py)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from squall.sim.faults.choices import Choices
from squall.sim.faults.fault import Fault
from squall.sim.faults.kinds.crash import as_others_keep
from squall.sim.faults.plan import Plan, Schedule
from squall.sim.faults.registry import DRAWS
from squall.sim.names import PROFILES, Profile

__all__ = ["LIGHT", "MILD", "PROFILES", "Drawing", "Profile"]

#: what is made good long before any call times out; what loses messages comes first
LIGHT = tuple(
    name for light in ("lost", "unnoticed") for name, draw in DRAWS.items() if draw.light == light
)
#: what the protocol makes good: with only these, nothing fails
MILD = frozenset(name for name, draw in DRAWS.items() if draw.mild)


class Drawing(Choices):
    """A plan while it is drawn."""

    def restarts(self) -> Plan:
        """A plan that ends a process as others have something of it, and does nothing else."""
        return self._plan(as_others_keep(self, self.stream("restart")), None)

    def draw(self) -> Plan:
        items: list[Fault] = []
        for name in self._names():
            items += DRAWS[name].items(self, self.stream("kind", name))
        return self._plan(items, self.heal_s)

    def _plan(self, items: Iterable[Fault], heal_s: float | None) -> Plan:
        found: dict[str, list[Any]] = {}
        for item in items:
            found.setdefault(item.group, []).append(item)
        groups: dict[str, Any] = {group: tuple(items) for group, items in found.items()}
        return Plan(schedule=self._schedule(), heal_s=heal_s, **groups)

    def _names(self) -> list[str]:
        """Which ways of drawing are used, in the order of :data:`DRAWS`."""
        possible = [name for name in DRAWS if not self.is_mild or name in MILD]
        stream = self.stream("kinds")
        if self.is_mild and stream.random() < 0.3:
            # Nothing that a call could notice: it is held to everything.
            chosen = set(stream.sample(LIGHT, stream.randint(1, len(LIGHT))))
            return [name for name in possible if name in chosen]
        if self.profile == "storm":
            count = stream.randint(3, 10)
        else:
            count = stream.choice((1, 1, 2, 2, 3, 4))
        chosen = set(stream.sample(possible, count))
        return [name for name in possible if name in chosen]

    def _schedule(self) -> Schedule:
        stream = self.stream("schedule")
        order = stream.choice(("fifo", "random", "random", "pct"))
        if order == "pct":
            steps = stream.choice((100, 500, 2_000))
            return Schedule(order="pct", depth=stream.randint(1, 5), steps=steps)
        return Schedule(order="random" if order == "random" else "fifo")
