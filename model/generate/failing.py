"""Draws calls that fail beside the operations of a program.

They change nothing of what the program computes: what they leave behind is what there is to see.
"""

from __future__ import annotations

from dataclasses import replace

from squall.model.generate.choices import Choices
from squall.model.program.program import FailingCall, Op, Program, Step

_KINDS: tuple[FailingCall, ...] = ("argument", "copy", "reading", "result", "reply", "worker")
_OFTEN = 0.3


def with_failing_calls(choices: Choices, program: Program) -> Program:
    """The program, with a call that fails before some of its operations."""

    def op(op: Op) -> Op:
        fails = choices.chance("failing call", _OFTEN)
        kind = choices.choice("failing call", _KINDS)
        return replace(op, fails_first=kind) if fails else op

    def step(step: Step) -> Step:
        return replace(step, ops=tuple(map(op, step.ops)))

    trainers = tuple(
        replace(trainer, steps=tuple(map(step, trainer.steps))) for trainer in program.trainers
    )
    return replace(program, trainers=trainers)
