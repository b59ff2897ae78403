"""What of a fault plan the engine ``torch`` can do, and what it leaves out."""

from __future__ import annotations

from squall.model.program.stories import port_only
from squall.sim.faults.fault import WITHOUT, Ability
from squall.sim.faults.plan import GROUPS, Plan, Schedule

#: none of the abilities that a kind of fault may need: the inside of the workers is PyTorch's own,
#: so only messages, links and whole processes can fail, and no process is restarted
ABILITIES: frozenset[Ability] = frozenset()

_SCHEDULE = "schedule: the order of a worker's threads is PyTorch's"


def left_out(plan: Plan) -> list[str]:
    """Items of a plan that :func:`supported` leaves out, as ``group[position]: kind``."""
    lines = [
        f"{group}[{at}]: {type(item).__name__}"
        for group, at, item in plan.items()
        if not ABILITIES.issuperset(item.needed())
    ]
    if plan.schedule not in (Schedule(), Schedule(order="random")):
        lines.append(_SCHEDULE)
    return lines


def kinds_left_out() -> list[str]:
    """What :func:`supported` leaves out of any plan, as ``group: kind``."""
    kinds = [(group, kind) for group, kinds in GROUPS.items() for kind in kinds.values()]
    always = [
        f"{group}: {kind.__name__}" for group, kind in kinds if not ABILITIES.issuperset(kind.needs)
    ]
    sometimes = [
        f"{group}: {kind.__name__} {which}"
        for group, kind in kinds
        for ability, which in kind.may_need.items()
        if ability not in ABILITIES
    ]
    return [*always, *sometimes, "schedule"]


def impossible() -> dict[str, str]:
    """What this engine cannot play of what the port plays, each with the reason."""
    reasons = {"order of tasks": _SCHEDULE}
    for group, kinds in GROUPS.items():
        for kind in kinds.values():
            wanted = [(ability, "") for ability in kind.needs]
            wanted += [(ability, f" {which}") for ability, which in kind.may_need.items()]
            for ability, which in wanted:
                if ability not in ABILITIES:
                    reasons.setdefault(f"fault {group}: {kind.__name__}{which}", WITHOUT[ability])
    return {**reasons, **{f"story {name}": why for name, why in port_only().items()}}


def supported(plan: Plan) -> Plan:
    """What of a plan this engine can do."""
    items = [item for _, _, item in plan.items() if ABILITIES.issuperset(item.needed())]
    return plan.with_items(items, schedule=Schedule())
