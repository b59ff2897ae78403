"""Fault plans as JSON, and whether a plan makes sense.

    plan = load_plan(Path("faults.json"), workers=4)
    text = dump_plan(plan)

Whatever is wrong is told in one message that names the place:
``faults.messages[2].dst: 9 is not one of the 4 workers``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from squall.model.program.strict_json import (
    MadeError,
    check_version,
    complaint,
    parse,
    read_text,
    shown,
    validate,
)
from squall.sim.faults.fault import Fault
from squall.sim.faults.limits import MOST
from squall.sim.faults.plan import VERSION, Plan
from squall.sim.faults.registry import GROUPS

__all__ = [
    "MOST",
    "PlanError",
    "RankError",
    "check_group",
    "check_plan",
    "dump_plan",
    "fitting",
    "load_plan",
    "plan_from_json",
    "plan_to_json",
]


class PlanError(ValueError):
    """A fault plan is not valid. The text names the place and says what is wrong there."""


class RankError(PlanError):
    """A plan is about a worker that the group does not have, which only a run could tell."""


_NOUN = "fault plan"


#: made when they are first asked for: together they take a tenth of a second
_item_types: dict[type[Fault], TypeAdapter[Fault]] = {}


def _item_type(kind: type[Fault]) -> TypeAdapter[Fault]:
    if kind not in _item_types:
        _item_types[kind] = TypeAdapter(kind)
    return _item_types[kind]


@cache
def _plan_type() -> TypeAdapter[Plan]:
    return TypeAdapter(Plan)


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
    items: list[Fault] = []
    for group, kinds in GROUPS.items():
        said = data.get(group, [])
        if not isinstance(said, list):
            raise PlanError(f"{place}.{group}: {shown(said)} is wrong: should be a list")
        items += [_item(item, kinds, f"{place}.{group}[{at}]") for at, item in enumerate(said)]
    rest = {name: value for name, value in data.items() if name not in GROUPS}
    try:
        plan = validate(_plan_type(), rest, place=place, noun=_NOUN, problem=PlanError).with_items(
            items
        )
    except MadeError as error:
        raise PlanError(place + error.rest) from None
    check_plan(plan, workers=workers, place=place)
    return plan


def _item(data: Any, kinds: Mapping[str, type[Fault]], place: str) -> Fault:
    if not isinstance(data, dict):
        raise PlanError(f"{place}: {shown(data)} is wrong: should be an object")
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        said = "is missing" if kind is None else f"{shown(kind)} is no such kind"
        raise PlanError(f"{place}.kind: {said}; there are {', '.join(kinds)}")
    adapter = _item_type(kinds[kind])
    return validate(adapter, data, place=place, noun=f"{kind} fault", problem=PlanError)


def dump_plan(plan: Plan, *, indent: int | None = None) -> str:
    """The plan as JSON text, fields at their defaults left out."""
    return json.dumps(plan_to_json(plan), indent=indent)


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """The plan as plain JSON values; the version is always there, and the kind of every item."""
    data: dict[str, Any] = {"version": plan.version}
    for group, _, item in plan.items():
        plain = _item_type(type(item)).dump_python(item, mode="json", exclude_defaults=True)
        data.setdefault(group, []).append({"kind": item.kind, **plain})
    groups: set[str] = {*GROUPS}
    rest: dict[str, Any] = _plan_type().dump_python(
        plan, mode="json", exclude_defaults=True, exclude=groups
    )
    return data | rest


def fitting(plan: Plan, workers: int) -> Plan:
    """The plan without the items about workers that are not there."""

    def fits(item: Fault) -> bool:
        return _wrong(item, workers) == _wrong(item, None)

    return plan.with_items(item for _, _, item in plan.items() if fits(item))


def _wrong(item: Fault, workers: int | None) -> int:
    """How many things are wrong with an item, given so many workers."""
    try:
        _item_type(type(item)).validate_python(item, context={"workers": workers})
    except ValidationError as error:
        return error.error_count()
    return 0


def check_plan(plan: Plan, *, workers: int | None = None, place: str = "faults") -> None:
    """Raises PlanError for the first item of ``plan`` about a worker that is not there.

    Nothing else can be wrong with a plan that has been made. ``workers``: how many there are; None
    if that is not known yet.
    """
    if workers is None:
        return
    for group, at, item in plan.items():
        try:
            _item_type(type(item)).validate_python(item, context={"workers": workers})
        except ValidationError as error:
            raise PlanError(f"{place}.{group}[{at}]{complaint(error, _NOUN)}") from None


def check_group(plan: Plan, size: int) -> None:
    """Raises RankError for the first item of ``plan`` about a worker that a group of ``size`` has
    not."""
    try:
        check_plan(plan, workers=size)
    except PlanError as error:
        raise RankError(f"{error} of the group that the script made") from None
