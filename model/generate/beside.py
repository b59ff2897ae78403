"""Draws what goes on beside the steps of programs: cargo, chains of references, updates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from squall.model.generate import cargo, chain, updates
from squall.model.generate.choices import Choices
from squall.model.program.program import Program, Step, beside
from squall.model.program.stories import port_only


class _Kind(NamedTuple):
    """What may be in a field of a step: how many at most, and how one is drawn."""

    field: str
    most: int
    draw: Callable[[Choices, list[int], int], Any]


_KINDS = (
    _Kind("cargoes", 2, cargo.draw_cargo),
    _Kind("chains", 3, chain.draw_chain),
    _Kind("updates", 1, updates.draw_updates),
)
#: how many programs have some of each
_OFTEN = {"cargoes": 0.25, "chains": 0.25, "updates": 0.15}


def draw_kinds(choices: Choices) -> tuple[str, ...]:
    """The fields that steps of a program have something in."""
    return tuple(kind.field for kind in _KINDS if choices.chance(kind.field, _OFTEN[kind.field]))


def draw_beside(
    choices: Choices, fields: tuple[str, ...], workers: list[int], most_before: int
) -> dict[str, Any]:
    """Draw what goes on beside a step, by field; the first of ``workers`` is the trainer's own."""
    found = {}
    for kind in _KINDS:
        if kind.field in fields:
            draw = partial(kind.draw, choices, workers, most_before)
            count = choices.integer(kind.field, 0, kind.most)
            found[kind.field] = tuple(choices.group(kind.field, draw) for _ in range(count))
    return found


def for_compiled(program: Program) -> Program:
    """The program as PyTorch's compiled engine can run it, without what it is known not to do."""
    impossible = port_only()

    def step(step: Step) -> Step:
        return replace(
            step,
            stories=tuple(each for each in step.stories if each.kind not in impossible),
            cargoes=tuple(map(cargo.for_compiled, step.cargoes)),
            chains=tuple(map(chain.for_compiled, step.chains)),
            updates=tuple(map(updates.for_compiled, step.updates)),
        )

    if not any(beside(step) for _, _, step in program.steps):
        return program
    trainers = tuple(
        replace(trainer, steps=tuple(map(step, trainer.steps))) for trainer in program.trainers
    )
    return replace(program, trainers=trainers)
