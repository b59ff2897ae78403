"""Draws what goes on beside the steps of programs: cargo, chains of references, updates."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from squall.model.program.cargo import Cargo
from squall.model.program.chain import Chain
from squall.model.program.choices import Choices
from squall.model.program.program import Program, Step, beside
from squall.model.program.stories import port_only
from squall.model.program.updates import Updates

KINDS = (Cargo, Chain, Updates)


def draw_kinds(choices: Choices) -> tuple[str, ...]:
    """The fields that steps of a program have something in."""
    return tuple(kind.field for kind in KINDS if choices.chance(kind.field, kind.often))


def draw_beside(
    choices: Choices, fields: tuple[str, ...], workers: list[int], most_before: int
) -> dict[str, Any]:
    """Draw what goes on beside a step, by field; the first of ``workers`` is the trainer's own."""
    found = {}
    for kind in KINDS:
        if kind.field in fields:
            draw = partial(kind.drawn, choices, workers, most_before)
            count = choices.integer(kind.field, 0, kind.most)
            found[kind.field] = tuple(choices.group(kind.field, draw) for _ in range(count))
    return found


def for_compiled(program: Program) -> Program:
    """The program as PyTorch's compiled engine can run it, without what it is known not to do."""
    impossible = port_only()

    def step(step: Step) -> Step:
        stories = tuple(each for each in step.stories if each.kind not in impossible)
        fields: dict[str, Any] = {
            kind.field: tuple(each.for_compiled() for each in getattr(step, kind.field))
            for kind in KINDS
        }
        return replace(step, stories=stories, **fields)

    return (
        program.with_steps(step) if any(beside(each) for _, _, each in program.steps) else program
    )
