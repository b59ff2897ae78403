"""What the healed core of a cluster must do once all faults are over: train, in a fresh context.

A small program over the workers that are there, the restarted ones among them: a step with calls
along a ring, some of them by reference, and a backward pass over all of them. Nothing on the way
waits in a thread of the pool, of which a fault may have left only one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from squall.model.one_process.interpreter import interpret
from squall.model.one_process.outcome import Outcome
from squall.model.program.program import Backward, Input, Leaf, Op, Program, Step, Trainer

#: seeds of leaves whose values have no zeros
_SEEDS = (0, 1, 3, 5, 6)


@dataclass
class Recovery:
    """The training after the faults: the program, and what came of it.

    ``core``: the workers that take part; the others have not come back. ``error``: what it broke
    off with, if it did. ``began``: the number of its first event.
    """

    program: Program
    expected: Outcome
    core: tuple[int, ...]
    got: Outcome = field(default_factory=Outcome)
    error: str | None = None
    began: int = -1


@lru_cache(maxsize=256)
def recovery_program(workers: int, core: tuple[int, ...]) -> Program:
    """The program for the workers ``core`` of ``workers`` (at least one)."""
    leaves = tuple(
        Leaf(owner=worker, shape=(2,), seed=_SEEDS[n % len(_SEEDS)])
        for n, worker in enumerate(core)
    )
    return Program(
        workers=workers, leaves=leaves, trainers=(Trainer(worker=core[0], steps=(_step(core),)),)
    )


def _step(core: Sequence[int]) -> Step:
    ops: list[Op] = []
    count = len(core)
    for n, worker in enumerate((*core[1:], core[0])):
        # Leaf n+1 of the worker itself, and what the one before has made.
        leaf = (n + 1) % count
        inputs = [Input(back=n + count - leaf)]
        if n:
            inputs.append(Input(back=1))
        call = "local" if worker == core[0] else ("sync", "remote")[n % 2]
        ops.append(Op(kind="mul" if n else "scale", inputs=tuple(inputs), worker=worker, call=call))  # type: ignore[arg-type]
    ops.append(Op(kind="total", inputs=(Input(back=1),), worker=core[0]))
    return Step(ops=tuple(ops), backwards=(Backward(roots=(1,)),))


@lru_cache(maxsize=256)
def recovery_outcome(program: Program) -> Outcome:
    """What it must come to."""
    return interpret(program)
