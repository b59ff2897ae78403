"""Fault plans as JSON, and whether a plan makes sense.

    plan = load_plan(Path("faults.json"), workers=4)
    text = dump_plan(plan)

Whatever is wrong is told in one message that names the place:
``faults.messages[2].dst: 9 is not one of the 4 workers``.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from squall.model.program.strict_json import check_version, parse, read_text, shown, validate
from squall.real.rpc.message import MessageType
from squall.real.tracing import EventType
from squall.sim.faults.plan import (
    GROUPS,
    VERSION,
    AnyFault,
    Corrupt,
    Duplicate,
    Flapping,
    Hold,
    Loss,
    MessageFault,
    Moment,
    Partition,
    Plan,
    Schedule,
    Selector,
    draws,
)


class PlanError(ValueError):
    """A fault plan is not valid. The text names the place and says what is wrong there."""


_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {
    item: TypeAdapter(item) for kinds in GROUPS.values() for item in kinds.values()
}
_PLAN: TypeAdapter[Plan] = TypeAdapter(Plan)


def load_plan(source: str | Path, *, workers: int | None = None) -> Plan:
    """A plan from a file (a ``Path``) or from the text of one; ``workers``: see :func:`check_plan`.

    Raises PlanError for anything but a valid plan, OSError if there is no such file.
    """
    if isinstance(source, Path):
        source = read_text(source, "faults", PlanError)
    return plan_from_json(parse(source, "faults", PlanError), workers=workers)


def plan_from_json(data: Any, *, workers: int | None = None, place: str = "faults") -> Plan:
    """A plan from what its JSON says; ``place`` is where in a larger file that is.

    Raises PlanError.
    """
    check_version(data, (VERSION,), place, PlanError)
    found: dict[str, tuple[AnyFault, ...]] = {}
    for group, kinds in GROUPS.items():
        items = data.get(group, [])
        if not isinstance(items, list):
            raise PlanError(f"{place}.{group}: {shown(items)} is wrong: should be a list")
        found[group] = tuple(
            _item(item, kinds, f"{place}.{group}[{at}]") for at, item in enumerate(items)
        )
    rest = {name: value for name, value in data.items() if name not in GROUPS}
    plan = validate(_PLAN, rest, place=place, noun="fault plan", problem=PlanError)
    plan = Plan(
        **found,  # type: ignore[arg-type]
        schedule=plan.schedule,
        begin=plan.begin,
        heal_s=plan.heal_s,
        version=plan.version,
    )
    check_plan(plan, workers=workers, place=place)
    return plan


def _item(data: Any, kinds: dict[str, type[Any]], place: str) -> AnyFault:
    if not isinstance(data, dict):
        raise PlanError(f"{place}: {shown(data)} is wrong: should be an object")
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        said = "is missing" if kind is None else f"{shown(kind)} is no such kind"
        raise PlanError(f"{place}.kind: {said}; there are {', '.join(kinds)}")
    item: AnyFault = validate(
        _ADAPTERS[kinds[kind]], data, place=place, noun=f"{kind} fault", problem=PlanError
    )
    return item


def dump_plan(plan: Plan, *, indent: int | None = None) -> str:
    """The plan as JSON text, fields at their defaults left out."""
    return json.dumps(plan_to_json(plan), indent=indent)


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """The plan as plain JSON values; the version is always there, and the kind of every item."""
    data: dict[str, Any] = {"version": plan.version}
    for group, _, item in plan.items():
        plain = _ADAPTERS[type(item)].dump_python(item, mode="json", exclude_defaults=True)
        data.setdefault(group, []).append({"kind": item.kind, **plain})
    rest = _PLAN.dump_python(plan, mode="json", exclude_defaults=True)
    return data | {name: rest[name] for name in ("schedule", "begin", "heal_s") if name in rest}


def fitting(plan: Plan, workers: int) -> Plan:
    """The plan without the items about workers that are not there."""
    kept: dict[str, Any] = {}
    for group, _, item in plan.items():
        try:
            _check_workers(item, workers, group)
        except PlanError:
            continue
        kept.setdefault(group, []).append(item)
    groups: dict[str, Any] = {group: tuple(kept.get(group, ())) for group in GROUPS}
    return replace(plan, **groups)


# -- whether it makes sense -----------------------------------------------------------------------


def check_plan(plan: Plan, *, workers: int | None = None, place: str = "faults") -> None:
    """Raises PlanError for the first thing in ``plan`` that makes no sense.

    ``workers``: how many there are; None if that is not known yet.
    """
    ids: dict[int, str] = {}
    for group, at, item in plan.items():
        where = f"{place}.{group}[{at}]"
        _check_numbers(item, where)
        _check_workers(item, workers, where)
        _check_item(item, where)
        if draws(item) and isinstance(item, MessageFault | Loss):
            other = ids.setdefault(item.id, where)
            if other != where:
                raise PlanError(
                    f"{where}.id: {item.id} is the id of {other} too; items that draw need ids of "
                    "their own"
                )
    _check_numbers(plan, place)
    _check_schedule(plan.schedule, f"{place}.schedule")


_POSITIVE = {"probability", "rate", "factor", "bytes_per_s", "period_s", "threads", "flips"}
_POSITIVE |= {"depth", "steps", "nth"}
_MAY_BE_NEGATIVE = {"offset_s", "id"}
_MAY_BE_ZERO = {"probability"}
#: seconds, or times as much, that nothing lasts or is
MOST = 1e9


def _check_numbers(item: Any, place: str) -> None:
    """Durations and counts are finite and not negative; some are not zero either."""
    for name in item.__dataclass_fields__:
        value = getattr(item, name)
        values = value if isinstance(value, tuple) else (value,)
        for at, number in enumerate(values):
            if isinstance(number, bool) or not isinstance(number, int | float):
                continue
            where = f"{place}.{name}" + (f"[{at}]" if isinstance(value, tuple) else "")
            if not math.isfinite(number):
                raise PlanError(f"{where}: {number} is not a finite number")
            if name in _POSITIVE - _MAY_BE_ZERO and number <= 0:
                raise PlanError(f"{where}: {number} is not above 0")
            if name not in _MAY_BE_NEGATIVE and number < 0:
                raise PlanError(f"{where}: {number} is negative")
            if _is_amount(name) and abs(number) > MOST:
                raise PlanError(f"{where}: {shown(number)} is more than {MOST:g}")
    probability = getattr(item, "probability", 0.0)
    if probability > 1:
        raise PlanError(f"{place}.probability: {probability} is not between 0 and 1")
    from_s, until_s = getattr(item, "from_s", 0.0), getattr(item, "until_s", None)
    if until_s is not None and until_s < from_s:
        raise PlanError(f"{place}.until_s: {until_s} is before from_s, {from_s}")


def _is_amount(name: str) -> bool:
    """Whether a field is of seconds, or of times as much."""
    return name in ("seconds", "factor", "rate") or name.endswith("_s")


def _check_workers(item: Any, workers: int | None, place: str) -> None:
    named = [(name, getattr(item, name, None)) for name in ("src", "dst", "worker")]
    if isinstance(item, Hold):
        named += [("until.src", item.until.src), ("until.dst", item.until.dst)]
    if isinstance(moment := getattr(item, "moment", None), Moment):
        named.append(("moment.worker", moment.worker))
    if isinstance(item, Partition):
        for at, group in enumerate(item.groups):
            named += [(f"groups[{at}][{n}]", worker) for n, worker in enumerate(group)]
    for name, worker in named:
        if worker is not None and workers is not None and not 0 <= worker < workers:
            only = "the only worker, 0" if workers == 1 else f"one of the {workers} workers"
            raise PlanError(f"{place}.{name}: {worker} is not {only}")


def _check_item(item: AnyFault, place: str) -> None:
    if isinstance(item, Selector):
        _check_selector(item, place)
    match item:
        case Hold():
            _check_numbers(item.until, f"{place}.until")
            _check_selector(item.until, f"{place}.until")
        case Duplicate() if not item.after_s:
            raise PlanError(f"{place}.after_s: is empty; [0.0] makes one copy")
        case Corrupt() if item.flips > 64:
            raise PlanError(f"{place}.flips: {item.flips} is more than 64")
        case Flapping() if item.down_s > item.period_s:
            raise PlanError(f"{place}.down_s: {item.down_s} is above period_s, {item.period_s}")
        case Partition():
            _check_partition(item, place)
    moment = getattr(item, "moment", None)
    if isinstance(moment, Moment):
        _check_numbers(moment, f"{place}.moment")
        if moment.event not in EventType.registry:
            known = ", ".join(EventType.registry)
            raise PlanError(
                f"{place}.moment.event: {moment.event!r} is no event; there are {known}"
            )


def _check_selector(item: Selector, place: str) -> None:
    for at, type in enumerate(item.types):
        if type not in MessageType.__members__:
            known = ", ".join(MessageType.__members__)
            raise PlanError(f"{place}.types[{at}]: {type!r} is no message type; there are {known}")


def _check_partition(item: Partition, place: str) -> None:
    if len(item.groups) < 2:
        raise PlanError(f"{place}.groups: a partition has two groups or more")
    seen: dict[int, int] = {}
    for at, group in enumerate(item.groups):
        for number, worker in enumerate(group):
            if worker in seen:
                raise PlanError(
                    f"{place}.groups[{at}][{number}]: {worker} is in groups[{seen[worker]}] too"
                )
            seen[worker] = at


def _check_schedule(schedule: Schedule, place: str) -> None:
    _check_numbers(schedule, place)
    if schedule.order != "fifo" and (schedule.late or schedule.yields):
        raise PlanError(
            f"{place}: late and yields are deviations from fifo, and order is {schedule.order}"
        )
    for at, (number, late) in enumerate(schedule.late):
        if number < 0 or not 0 <= late < math.inf:
            raise PlanError(f"{place}.late[{at}]: {(number, late)} is not (number, 0 or more)")
