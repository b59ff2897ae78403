"""All tiny programs up to a size: who calls whom, with what, and how.

bounds = read_bounds("workers<=3, calls<=2")        # raises BoundsError
for program in programs(bounds): ...

One trainer, on worker 0, has a leaf and makes calls, one after the other. Each call goes to another
worker and is given the leaf, or what an earlier call has come to. It is one of two kinds: ``async``,
waited for where its value is needed and at the latest at the end, or ``remote``, whose value stays where it
is; whoever is given it is given the reference, and fetches the value itself. At the end the trainer
drops everything; or it adds up what no call was given, fetching what it must, and runs a backward
pass from the sum. Workers are numbered in the order in which they are called first, and there are no
more than are called: programs that differ by names only are one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import squall.model.program.check  # noqa: F401  programs are looked at as they are made
from squall.model.program.program import (
    Backward,
    Call,
    Input,
    Keep,
    Leaf,
    Op,
    Program,
    Step,
    Trainer,
)
from squall.sim.scenario import Scenario, World

#: how large the numbers of an expression may be
MOST_WORKERS, MOST_CALLS = 5, 6
EXPECTED = (
    f"expected workers<=N, calls<=M with N from 2 to {MOST_WORKERS} and M from 1 to {MOST_CALLS}"
)

_PART = re.compile(r"\s*(workers|calls)\s*(<=|=)\s*(\d{1,3})\s*")


class BoundsError(ValueError):
    """An expression is none: the text says what is expected."""


class Bounds(NamedTuple):
    """Least and most of each."""

    workers: tuple[int, int]
    calls: tuple[int, int]


def read_bounds(text: str) -> Bounds:
    """What ``workers<=3, calls<=4`` says, or with ``=`` for exactly so many. Raises BoundsError."""
    found: dict[str, tuple[int, int]] = {}
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise BoundsError(f"{EXPECTED}, got {text!r}")
        name, sign, number = match[1], match[2], int(match[3])
        least, most = (2, MOST_WORKERS) if name == "workers" else (1, MOST_CALLS)
        if name in found:
            raise BoundsError(f"{EXPECTED}, each once, got {text!r}")
        if not least <= number <= most:
            raise BoundsError(f"{EXPECTED}, got {name}{sign}{number}")
        found[name] = (number if sign == "=" else least, number)
    if len(found) < 2:
        raise BoundsError(f"{EXPECTED}, got {text!r}")
    return Bounds(found["workers"], found["calls"])


class _Made(NamedTuple):
    """One call: to which worker, of which kind, and given what: the number of a call, or -1."""

    worker: int
    call: Call
    given: int


def programs(bounds: Bounds) -> Iterator[tuple[str, Program]]:
    """Each program within the bounds, the smallest first, with a text that says what it is."""
    for number in range(bounds.calls[0], bounds.calls[1] + 1):
        for workers in _workers(number, bounds.workers[1] - 1):
            if 1 + max(workers) < bounds.workers[0]:
                continue
            kinds: list[tuple[Call, ...]] = list(product(("async", "remote"), repeat=number))
            for kind in kinds:
                for given in product(*(range(-1, at) for at in range(number))):
                    calls = [_Made(*each) for each in zip(workers, kind, given, strict=True)]
                    for ends in ("dropped", "backward"):
                        yield _text(calls, ends), _program(calls, backward=ends == "backward")


def _workers(number: int, most: int) -> Iterator[tuple[int, ...]]:
    """Whom the calls go to, new workers in the order of their numbers."""
    for workers in product(range(1, most + 1), repeat=number):
        highest = 0
        for each in workers:
            if each > highest + 1:
                break
            highest = max(highest, each)
        else:
            yield workers


def _text(calls: list[_Made], ends: str) -> str:
    said = [
        f"{call.call} to {call.worker} of {'leaf' if call.given < 0 else f'call {call.given + 1}'}"
        for call in calls
    ]
    return f"{'; '.join(said)}; {ends}"


def _program(calls: list[_Made], *, backward: bool) -> Program:
    ops = [_op(calls, at) for at in range(len(calls))]
    if backward:
        used = {call.given for call in calls}
        left = [at for at in range(len(calls)) if at not in used]
        inputs = tuple(Input(back=len(calls) - at) for at in left)
        ops.append(Op(kind="total", inputs=inputs, worker=0))
    step = Step(ops=tuple(ops), backwards=(Backward(roots=(1,)),) if backward else ())
    return Program(
        workers=1 + max(call.worker for call in calls),
        leaves=(Leaf(owner=0, seed=1),),
        trainers=(Trainer(worker=0, steps=(step,)),),
    )


def _op(calls: list[_Made], at: int) -> Op:
    call = calls[at]
    is_reference = call.given >= 0 and calls[call.given].call == "remote"
    given = Input(back=at - call.given, how="rref" if is_reference else "value")
    keep: Keep = "use" if call.call == "remote" else "step"
    return Op(
        kind="scale", inputs=(given,), worker=call.worker, call=call.call, factor=2, keep=keep
    )


def scenarios(bounds: Bounds) -> list[tuple[str, Scenario]]:
    """The programs within the bounds, the smallest first, each in words and as a scenario."""
    world = World(skip_handshakes=True)
    return [(text, Scenario(work=each, world=world)) for text, each in programs(bounds)]
