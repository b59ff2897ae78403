"""Draws calls that fail beside the operations of a program.

They change nothing of what the program computes: what they leave behind is what there is to see.
"""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from squall.model.program.choices import Choices
from squall.model.program.program import FailingCall, FailsBy, Op, Program, Step

_KINDS: tuple[FailingCall, ...] = get_args(FailingCall)
#: a creation, and a wrapper around the call, take a way of their own through every error
_WAYS: tuple[FailsBy, ...] = (
    "op",
    "op",
    "sync",
    "async",
    "remote",
    "remote",
    "remote",
    "profiled sync",
    "profiled remote",
)
_OFTEN = 0.5


def with_failing_calls(choices: Choices, program: Program) -> Program:
    """The program, with a call that fails before some of its operations."""

    def op(op: Op) -> Op:
        if not choices.chance("failing call", _OFTEN):
            return op
        return replace(
            op,
            fails_first=choices.pick("failing call", _KINDS),
            fails_by=choices.choice("failing by", _WAYS),
        )

    def step(step: Step) -> Step:
        return replace(step, ops=tuple(map(op, step.ops)))

    return program.with_steps(step)
