"""Draws cargo: messages of every shape that go along with calls (model/program/cargo.py)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import get_args

from squall.model.generate.choices import Choices
from squall.model.program.cargo import (
    Cargo,
    CargoCall,
    CargoDtype,
    CargoFailure,
    Layout,
    Part,
    PartKind,
)

_KINDS: tuple[PartKind, ...] = (
    *("tensor",) * 8,
    *("view",) * 3,
    *("same",) * 2,
    "detached",
    *(kind for kind in get_args(PartKind) if kind not in ("tensor", "same", "view", "detached")),
)
_LAYOUTS: tuple[Layout, ...] = get_args(Layout)
_DTYPES: tuple[CargoDtype, ...] = (*("float64",) * 4, *get_args(CargoDtype))
_CALLS: tuple[CargoCall, ...] = get_args(CargoCall)
_FAILURES: tuple[CargoFailure, ...] = get_args(CargoFailure)
_MOST_PARTS = 6
_WAITS_S = (0.0, 0.0, 0.01, 1.0)


def draw_cargo(choices: Choices, workers: list[int], most_before: int) -> Cargo:
    """Draw a cargo; the first of ``workers`` is the simplest one to carry it to."""
    call = choices.pick("call", _CALLS)
    fails = choices.chance("fails", 0.15)
    parts = [
        choices.group("part", partial(_draw_part, choices, workers))
        for _ in range(choices.integer("parts", 1, _MOST_PARTS))
    ]
    return Cargo(
        worker=choices.pick("worker", workers),
        before=choices.integer("before", 0, most_before),
        parts=tuple(parts),
        call=call,
        via=(choices.pick("via", workers),) if call == "relay" else (),
        writes=choices.chance("writes", 0.4),
        passes=choices.choice("passes", (0, 0, 1, 1, 2)),
        wait_s=choices.choice("wait", _WAITS_S),
        fails=choices.pick("failure", _FAILURES) if fails else None,
    )


def _draw_part(choices: Choices, workers: list[int]) -> Part:
    return Part(
        kind=choices.pick("kind", _KINDS),
        layout=choices.pick("layout", _LAYOUTS),
        dtype=choices.pick("dtype", _DTYPES),
        seed=choices.integer("seed", 0, 20),
        grad=choices.chance("grad", 0.4),
        back=choices.integer("back", 1, 3),
        take=choices.integer("take", 0, 3),
        worker=choices.pick("worker", workers),
    )


def for_compiled(cargo: Cargo) -> Cargo:
    """Without calls that are to fail, which leave something there, without passes through proxies
    that lose their context, without references that are handed on within their owner, maybe before
    they are created, and without a history and its memory beside each other, which share it there
    (views-arrive-unrelated)."""
    if cargo.via == (cargo.worker,):
        cargo = replace(cargo, call="sync", via=())
    lost = cargo.call == "proxy_async"
    parts = (
        replace(part, kind="tensor") if part.kind == "detached" else part for part in cargo.parts
    )
    return replace(cargo, parts=tuple(parts), fails=None, passes=0 if lost else cargo.passes)
