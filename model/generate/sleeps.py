"""Draws user code that sleeps in backward passes, and passes that may fail on its account.

How long a call may take is not known here: what is drawn is shorter for some timeouts and longer
for others. A pass that is given up still runs, on some workers, while the next one begins. In most
programs one place outlasts a call of the usual 60 s in the first pass, and in the next one sleeps
until that is over, so that the two overlap there.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import get_args

from squall.model.program.choices import Choices
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
)

_OFTEN = 0.1
#: of the leaves, and of the operations; and of those beside the one place that is aimed at
_SLEEPING, _BESIDE = 0.4, 0.08
_AIMED = 0.7
_AT: tuple[SleepAt, ...] = get_args(SleepAt)
_LEAF_AT: tuple[LeafSleepAt, ...] = get_args(LeafSleepAt)
#: virtual time; calls of most worlds may take 60 s, of some only 0.5, 2 or 10
_SECONDS = (0.0, 0.3, 0.7, 1.5, 3.0, 7.0, 12.0, 40.0, 61.0, 75.0, 130.0)
_MOST_CALLS = 3
#: of the place that is aimed at, in its first pass and in those after it
_OUTLASTING = (60.5, 61.0, 65.0, 75.0)
_NEXT = (0.0, 0.3, 3.0, 12.0, 40.0, 61.0)
_EVERY_S = (None, None, 0.0, 0.4, 1.0, 5.0, 30.0, 61.0)
_FACTORS = (1, 1, 2, 3, 10)


def with_sleeps(choices: Choices, program: Program) -> Program:
    """The program, some of whose user code may sleep; then every pass may fail."""
    if not choices.chance("sleeps", _OFTEN):
        return program
    return _Drawing(choices, program).draw()


class _Drawing:
    """The sleeps of a program while they are drawn."""

    def __init__(self, choices: Choices, program: Program) -> None:
        self.choices = choices
        self.program = program
        #: how many leaves and operations are still to come until the one that is aimed at
        self.until = -1
        self.often = _SLEEPING
        places = sum(leaf.requires_grad for leaf in program.leaves)
        places += sum(_may_sleep(op) for _, _, step in program.steps for op in step.ops)
        if choices.chance("aimed", _AIMED):
            self.until = choices.integer("place", 0, places - 1)
            self.often = _BESIDE

    def draw(self) -> Program:
        leaves = [
            self.choices.group("sleep", partial(self._leaf, leaf)) if leaf.requires_grad else leaf
            for leaf in self.program.leaves
        ]
        return self.program.with_steps(self._step, leaves=tuple(leaves))

    def _seconds(self) -> tuple[float, ...] | None:
        """How long the next place sleeps in each pass; None if it does not."""
        choices = self.choices
        aimed = self.until == 0
        self.until -= 1
        if aimed:
            later = (choices.choice("seconds", _NEXT) for _ in range(_MOST_CALLS - 1))
            return (choices.choice("outlasting", _OUTLASTING), *later)
        if not choices.chance("sleeps", self.often):
            return None
        count = choices.integer("calls", 1, _MOST_CALLS)
        return tuple(choices.choice("seconds", _SECONDS) for _ in range(count))

    def _leaf(self, leaf: Leaf) -> Leaf:
        seconds = self._seconds()
        if seconds is None:
            return leaf
        at = self.choices.choice("sleep at", _LEAF_AT)
        return replace(leaf, sleep=LeafSleep(at=at, seconds=seconds))

    def _op(self, op: Op) -> Op:
        seconds = self._seconds()
        if seconds is None:
            return op
        return replace(op, sleep=Sleep(at=self.choices.choice("sleep at", _AT), seconds=seconds))

    def _step(self, step: Step) -> Step:
        choices = self.choices
        ops = [
            choices.group("sleep", partial(self._op, op)) if _may_sleep(op) else op
            for op in step.ops
        ]
        # A pass from a root that could not be made does not begin.
        raises = any(op.fault == "udf" for op in step.ops)
        backwards = [
            choices.group("passes", partial(_backward, choices, backward, raises))
            for backward in step.backwards
        ]
        return replace(step, ops=tuple(ops), backwards=tuple(backwards))


def _may_sleep(op: Op) -> bool:
    return not op.builtin and op.grad == "on"


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
