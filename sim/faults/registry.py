"""All kinds of faults, as they are found in sim/faults/kinds/, and the ways of drawing them."""

from __future__ import annotations

from types import ModuleType
from typing import get_args

from squall.model.discovery import modules_in
from squall.sim.faults import kinds
from squall.sim.faults.choices import FaultDraw
from squall.sim.faults.fault import Fault, Group


def name_of(kind: type[Fault]) -> str:
    """The name that a kind has in plans and in the trace."""
    name = kind.__dataclass_fields__["kind"].default
    assert isinstance(name, str), f"{kind} has no name"
    return name


def _kind_in(module: ModuleType) -> type[Fault]:
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Fault)
        and value.__module__ == module.__name__
    ]
    if len(found) != 1:
        raise TypeError(f"{module.__name__} has to define one kind of fault, not {len(found)}")
    return found[0]


def _found() -> list[tuple[type[Fault], list[FaultDraw]]]:
    """Each kind with the ways of drawing it, in an order that is declared by the kinds."""
    found = []
    for module in modules_in(kinds.__name__):
        draws = [value for value in vars(module).values() if isinstance(value, FaultDraw)]
        found.append((_kind_in(module), draws))
    groups = get_args(Group)
    return sorted(
        found, key=lambda each: (groups.index(each[0].group), each[0].position, name_of(each[0]))
    )


_FOUND = _found()
#: the kinds of a group's items, by their names
GROUPS: dict[Group, dict[str, type[Fault]]] = {
    group: {name_of(kind): kind for kind, _ in _FOUND if kind.group == group}
    for group in get_args(Group)
}
#: what may happen in a run because of a plan, as it is counted
KINDS: tuple[str, ...] = (
    *(name for names in GROUPS.values() for name in names),
    *(name for kind, _ in _FOUND for name in kind.further_events),
)
#: the ways of drawing items, by their names
DRAWS: dict[str, FaultDraw] = {draw.name: draw for _, draws in _FOUND for draw in draws}
