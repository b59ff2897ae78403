"""Draws updates of what is shared (model/program/updates.py)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import get_args

from squall.model.generate.choices import Choices
from squall.model.program.updates import LedgerCall, Stepper, Updates

_STEPPERS = tuple(stepper for stepper in get_args(Stepper) if stepper != "registered")
_CALLS: tuple[LedgerCall, ...] = get_args(LedgerCall)
#: to register an optimizer takes a second of a process, once
_REGISTERED = 0.1
_PAUSES_S = (0.0, 0.0001, 0.001, 0.01)


def draw_updates(choices: Choices, workers: list[int], most_before: int) -> Updates:
    """Draw updates; the first of ``workers`` is the trainer's own."""

    def some(name: str, least: int) -> tuple[int, ...]:
        pick = partial(choices.pick, "worker", workers)
        return tuple(
            choices.group(name, pick) for _ in range(choices.integer(f"{name}s", least, 3))
        )

    return Updates(
        worker=choices.pick("worker", workers),
        before=choices.integer("before", 0, most_before),
        owners=some("owner", 1),
        trainers=some("updater", 2),
        steps=choices.integer("steps", 1, 2),
        stepper="registered"
        if choices.chance("registered", _REGISTERED)
        else choices.pick("stepper", _STEPPERS),
        shared=choices.chance("shared", 0.4),
        skips=choices.chance("skips", 0.4),
        pause_s=choices.choice("pause", _PAUSES_S),
        ledger=choices.pick("ledger", _CALLS),
        waits=choices.chance("waits", 0.5),
        fails=choices.chance("fails", 0.4),
    )


def for_compiled(updates: Updates) -> Updates:
    """Without steps that leave out a parameter: PyTorch's engine applies what an earlier step has
    left (stale-gradient-is-applied). And no parameter is handed on within its owner before it is
    created (home-before-creation). Nor is an optimizer registered: PyTorch takes such steps without
    a lock."""
    stepper = "slow" if updates.stepper == "registered" else updates.stepper
    return replace(updates, skips=False, waits=True, stepper=stepper)
