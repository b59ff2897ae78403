"""Draws user code that sleeps in backward passes, and passes that may fail on its account.

How long a call may take is not known here: what is drawn is shorter for some timeouts and longer
for others. A pass that is given up still runs, on some workers, while the next one begins.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import get_args

from squall.model.generate.choices import Choices
from squall.model.program.program import (
    Backward,
    Leaf,
    LeafSleep,
    LeafSleepAt,
    Op,
    Program,
    Sleep,
    SleepAt,
    Step,
    Trainer,
)

_OFTEN = 0.04
#: of the leaves, and of the operations
_SLEEPING = 0.4
_AT: tuple[SleepAt, ...] = get_args(SleepAt)
_LEAF_AT: tuple[LeafSleepAt, ...] = get_args(LeafSleepAt)
#: virtual time; calls of most worlds may take 60 s, of some only 0.5, 2 or 10
_SECONDS = (0.0, 0.3, 0.7, 1.5, 3.0, 7.0, 12.0, 40.0, 61.0, 75.0, 130.0)
_MOST_CALLS = 3
_EVERY_S = (None, None, 0.0, 0.4, 1.0, 5.0, 30.0, 61.0)
_FACTORS = (1, 1, 2, 3, 10)


def with_sleeps(choices: Choices, program: Program) -> Program:
    """The program, some of whose user code may sleep; then every pass may fail."""
    if not choices.chance("sleeps", _OFTEN):
        return program
    leaves = [
        choices.group("sleep", partial(_leaf, choices, leaf)) if leaf.requires_grad else leaf
        for leaf in program.leaves
    ]
    trainers = [_trainer(choices, trainer) for trainer in program.trainers]
    return replace(program, leaves=tuple(leaves), trainers=tuple(trainers))


def _seconds(choices: Choices) -> tuple[float, ...]:
    count = choices.integer("calls", 1, _MOST_CALLS)
    return tuple(choices.choice("seconds", _SECONDS) for _ in range(count))


def _leaf(choices: Choices, leaf: Leaf) -> Leaf:
    if not choices.chance("sleeps", _SLEEPING):
        return leaf
    at = choices.choice("sleep at", _LEAF_AT)
    return replace(leaf, sleep=LeafSleep(at=at, seconds=_seconds(choices)))


def _trainer(choices: Choices, trainer: Trainer) -> Trainer:
    return replace(trainer, steps=tuple(_step(choices, step) for step in trainer.steps))


def _step(choices: Choices, step: Step) -> Step:
    ops = [choices.group("sleep", partial(_op, choices, op)) for op in step.ops]
    # A pass from a root that could not be made does not begin.
    raises = any(op.fault == "udf" for op in step.ops)
    backwards = [
        choices.group("passes", partial(_backward, choices, backward, raises))
        for backward in step.backwards
    ]
    return replace(step, ops=tuple(ops), backwards=tuple(backwards))


def _op(choices: Choices, op: Op) -> Op:
    if op.builtin or op.grad != "on" or not choices.chance("sleeps", _SLEEPING):
        return op
    return replace(op, sleep=Sleep(at=choices.choice("sleep at", _AT), seconds=_seconds(choices)))


def _backward(choices: Choices, backward: Backward, raises: bool) -> Backward:
    """What a function would do is done on the trainer: its passes could not fail one by one."""
    by_reference = backward.where == "rref" and not raises
    return replace(
        backward,
        where="rref" if by_reference else "here",
        worker=0,
        times=max(backward.times, choices.integer("times", 1, 4)),
        factor=1 if by_reference else choices.choice("factor", _FACTORS),
        may_fail=True,
        every_s=None if by_reference else choices.choice("every", _EVERY_S),
    )
