"""Whether a program makes sense: what its types alone do not tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any

from squall.model.program.acts.check import check_acts
from squall.model.program.acts.expected import ActError
from squall.model.program.cargo import CargoPart
from squall.model.program.chain import Link
from squall.model.program.program import (
    CHECKS,
    HELPER_CALLS,
    REFERENCE_CALLS,
    WORKERS,
    Backward,
    Beside,
    Input,
    Leaf,
    LeafSleep,
    Op,
    Optimizer,
    Program,
    Sleep,
    Step,
    Trainer,
    beside,
    source,
)
from squall.model.program.stories import ACTS, Story, ranges_of
from squall.model.program.stories import KINDS as STORIES
from squall.model.program.strict_json import MadeError, shown

if TYPE_CHECKING:
    from squall.model.program.kind import Kind

MOST_WORKERS = 1024
MOST_TRAINERS = 1024
MOST_ELEMENTS = 1 << 20
#: workers on the way, which makes calls four deep
MOST_VIA = 3
MOST_TIMES = 100
MOST_GATHERS = 100
MOST_ENDINGS = 10
#: seconds that anything may sleep, and calls of a hook in which it does
MOST_S = 1000.0
MOST_SLEEPS = 100
MOST_FACTOR = 1000
#: what an operation multiplies by: an integer that a float64 holds
MOST_OP_FACTOR = 2**53


class ProgramError(MadeError):
    """A program is not valid. The text names the place and says what is wrong there."""


@cache
def _kinds() -> Mapping[str, Kind]:
    """All kinds of operations. They compute with torch: it is imported where a program has one."""
    from squall.model.program.operations import KINDS

    return KINDS


def check_program(program: Program, *, place: str = "program") -> None:
    """Raises ProgramError for the first thing in ``program`` that makes no sense."""
    if not 1 <= program.workers <= MOST_WORKERS:
        raise ProgramError(
            f"{place}.workers: {program.workers} is not between 1 and {MOST_WORKERS}"
        )
    if not 0 <= program.gathers <= MOST_GATHERS:
        raise ProgramError(
            f"{place}.gathers: {program.gathers} is not between 0 and {MOST_GATHERS}"
        )
    if not program.leaves:
        raise ProgramError(f"{place}.leaves: there is none")
    if not 1 <= len(program.trainers) <= MOST_TRAINERS:
        raise ProgramError(
            f"{place}.trainers: there are {len(program.trainers)}, not 1 to {MOST_TRAINERS}"
        )
    if len(program.endings) > MOST_ENDINGS:
        raise ProgramError(f"{place}.endings: there are more than {MOST_ENDINGS}")
    for at, ending in enumerate(program.endings):
        _check_seconds(ending.timeout_s, f"{place}.endings[{at}].timeout_s")
        _check_seconds(ending.quiet_s, f"{place}.endings[{at}].quiet_s")
    for number, leaf in enumerate(program.leaves):
        _check_leaf(program, leaf, f"{place}.leaves[{number}]")
    for number, trainer in enumerate(program.trainers):
        where = f"{place}.trainers[{number}]"
        _check_worker(program, trainer.worker, f"{where}.worker")
        for at, step in enumerate(trainer.steps):
            _check_step(program, trainer, step, f"{where}.steps[{at}]")
            first = trainer.steps[at - 1].group if at else 0
            if not first <= step.group <= len(program.endings):
                raise ProgramError(
                    f"{where}.steps[{at}].group: {step.group} is not from {first}, as before it, to "
                    f"{len(program.endings)}, the last group"
                )
        if trainer.optimizer is not None:
            _check_optimizer(program, number, trainer.optimizer, f"{where}.optimizer")


def _check_worker(program: Program, worker: int, place: str) -> None:
    if not 0 <= worker < program.workers:
        count = program.workers
        only = "the only worker, 0" if count == 1 else f"one of the {count} workers"
        raise ProgramError(f"{place}: {worker} is not {only}")


def _check_leaf(program: Program, leaf: Leaf, place: str) -> None:
    _check_worker(program, leaf.owner, f"{place}.owner")
    count = 1
    for at, length in enumerate(leaf.shape):
        if length < 0:
            raise ProgramError(f"{place}.shape[{at}]: {length} is negative")
        count *= max(length, 1)
    if count > MOST_ELEMENTS:
        raise ProgramError(f"{place}.shape: has more than {MOST_ELEMENTS} elements")
    if leaf.kind == "embedding" and (len(leaf.shape) != 2 or not leaf.shape[0]):
        raise ProgramError(f"{place}.shape: an embedding has two dimensions and at least a row")
    if leaf.kind == "embedding" and "increment" in leaf.hooks:
        raise ProgramError(f"{place}.hooks: a sparse gradient cannot be incremented")
    if leaf.hooks and not leaf.requires_grad:
        raise ProgramError(f"{place}.hooks: the leaf does not require grad")
    if leaf.sleep is not None:
        if not leaf.requires_grad:
            raise ProgramError(f"{place}.sleep: the leaf does not require grad")
        _check_sleep(leaf.sleep, f"{place}.sleep")
    if program.mode == "exact" and leaf.dtype != "float64":
        raise ProgramError(f"{place}.dtype: is {leaf.dtype}, but mode exact needs float64")


def _check_sleep(sleep: Sleep | LeafSleep, place: str) -> None:
    if len(sleep.seconds) > MOST_SLEEPS:
        raise ProgramError(f"{place}.seconds: has more than {MOST_SLEEPS} elements")
    for at, seconds in enumerate(sleep.seconds):
        _check_seconds(seconds, f"{place}.seconds[{at}]")


def _check_seconds(seconds: float, place: str) -> None:
    if not 0 <= seconds <= MOST_S:
        raise ProgramError(f"{place}: {seconds!r} is not between 0 and {MOST_S:g}")


def _check_step(program: Program, trainer: Trainer, step: Step, place: str) -> None:
    for index, op in enumerate(step.ops):
        _check_op(program, trainer, step, index, op, f"{place}.ops[{index}]")
    for field, at, thing in beside(step):
        _check_beside(program, trainer, thing, f"{place}.{field}[{at}]")
    for at, backward in enumerate(step.backwards):
        _check_backward(program, step, backward, f"{place}.backwards[{at}]")
    if step.optimize and trainer.optimizer is None:
        raise ProgramError(f"{place}.optimize: the trainer has no optimizer")


def _check_story(program: Program, trainer: Trainer, story: Story, place: str) -> None:
    if story.kind not in STORIES and story.kind != ACTS:
        known = ", ".join((*STORIES, ACTS))
        raise ProgramError(f"{place}.kind: {story.kind!r} is no story; there are {known}")
    if story.kind == ACTS:
        try:
            check_acts(story.acts, trainer.worker, program.workers, f"{place}.acts")
        except ActError as error:
            raise ProgramError(str(error)) from None
    elif story.acts:
        raise ProgramError(f"{place}.acts: only a story of kind {ACTS!r} has any")
    ranges = ranges_of(story.kind)
    if len(story.numbers) > len(ranges):
        raise ProgramError(f"{place}.numbers: {story.kind!r} has no more than {len(ranges)}")
    for at, (number, (name, (least, most))) in enumerate(
        zip(story.numbers, ranges.items(), strict=False)
    ):
        if not least <= number <= most:
            raise ProgramError(f"{place}.numbers[{at}]: {name} is {number}, not {least} to {most}")


def _check_beside(program: Program, trainer: Trainer, thing: Beside, place: str) -> None:
    for where, worker in _workers_of(thing, place):
        _check_worker(program, worker, where)
    if thing.before < 0:
        raise ProgramError(f"{place}.before: {thing.before} is negative")
    if isinstance(thing, Story):
        _check_story(program, trainer, thing, place)
    elif (wrong := thing.wrong()) is not None:
        raise ProgramError(f"{place}.{wrong}")


def _workers_of(thing: Any, place: str) -> Iterator[tuple[str, int]]:
    """The workers that it names, but in acts, and the places in which it does."""
    for field in fields(thing):
        value = getattr(thing, field.name)
        if field.name == "worker":
            yield f"{place}.worker", value
        for at, each in enumerate(value if isinstance(value, tuple) else ()):
            if field.name in WORKERS:
                yield f"{place}.{field.name}[{at}]", each
            elif isinstance(each, Link | CargoPart):
                yield from _workers_of(each, f"{place}.{field.name}[{at}]")


def _check_op(
    program: Program, trainer: Trainer, step: Step, index: int, op: Op, place: str
) -> None:
    kind = _kinds().get(op.kind)
    if kind is None:
        known = ", ".join(_kinds())
        raise ProgramError(f"{place}.kind: {op.kind!r} is no operation; there are {known}")
    if program.mode == "exact" and not kind.exact:
        raise ProgramError(f"{place}.kind: {op.kind} does not keep integers, as mode exact needs")
    _check_worker(program, op.worker, f"{place}.worker")
    if not kind.least <= len(op.inputs) <= kind.most:
        wanted = str(kind.least) if kind.least == kind.most else f"{kind.least} or more"
        raise ProgramError(f"{place}.inputs: {op.kind} takes {wanted}, not {len(op.inputs)}")
    for at, input in enumerate(op.inputs):
        _check_input(program, step, index, input, f"{place}.inputs[{at}]")
    for at, worker in enumerate(op.via):
        _check_worker(program, worker, f"{place}.via[{at}]")
    if abs(op.factor) > MOST_OP_FACTOR:
        raise ProgramError(
            f"{place}.factor: {shown(op.factor)} is not between {-MOST_OP_FACTOR} and {MOST_OP_FACTOR}"
        )
    if len(op.via) > MOST_VIA:
        raise ProgramError(f"{place}.via: is longer than {MOST_VIA}")
    if op.via and (op.call == "local" or op.call in HELPER_CALLS):
        raise ProgramError(f"{place}.via: a call of kind {op.call} goes straight to its worker")
    if op.call == "local" and op.worker != trainer.worker:
        raise ProgramError(
            f"{place}.worker: a local operation is on worker {trainer.worker}, as its trainer is"
        )
    if op.keep != "step" and op.call not in REFERENCE_CALLS:
        raise ProgramError(f"{place}.keep: a call of kind {op.call} gives no reference to keep")
    if op.grad == "off_at_caller" and (op.via or op.call in REFERENCE_CALLS):
        raise ProgramError(
            f"{place}.grad: off_at_caller is for a call straight to its worker that returns a value"
        )
    if kind.takes_table:
        _check_lookup(program, index, op, place)
    if op.sleep is not None:
        _check_sleep(op.sleep, f"{place}.sleep")
    if op.builtin:
        _check_builtin(op, place)


def _check_input(program: Program, step: Step, index: int, input: Input, place: str) -> None:
    there = index + len(program.leaves)
    if input.back < 1:
        raise ProgramError(
            f"{place}.back: {input.back} is no earlier value: an operation cannot use itself or "
            "a later one"
        )
    if input.back > there:
        raise ProgramError(
            f"{place}.back: {input.back} is too far: there are {there} values before"
        )
    is_leaf, number = source(program, index, input)
    made = None if is_leaf else step.ops[number]
    outputs = 1 if made is None else _kinds()[made.kind].outputs
    if not 0 <= input.output < outputs:
        raise ProgramError(f"{place}.output: {input.output} is not one of {outputs}")
    if made is None:
        return
    if input.how != "value" and made.call not in REFERENCE_CALLS:
        raise ProgramError(
            f"{place}.how: {input.how}, but a call of kind {made.call} gives no reference"
        )
    if made.keep == "now":
        raise ProgramError(f"{place}.back: ops[{number}] is dropped as soon as it is made")


def _check_lookup(program: Program, index: int, op: Op, place: str) -> None:
    is_leaf, number = source(program, index, op.inputs[0])
    if not is_leaf or program.leaves[number].kind != "embedding":
        raise ProgramError(
            f"{place}.inputs[0]: embedding looks up in a leaf of kind embedding only"
        )
    if op.relay == "double":
        raise ProgramError(f"{place}.relay: double is not for an embedding")


def _check_builtin(op: Op, place: str) -> None:
    if _kinds()[op.kind].builtin is None:
        raise ProgramError(f"{place}.builtin: {op.kind} is no operator of torch")
    if op.call not in ("sync", "async", "remote") or op.via:
        raise ProgramError(f"{place}.builtin: is for a plain sync, async or remote call")
    if op.hooks or op.sleep is not None or op.fault is not None or op.grad == "off":
        raise ProgramError(f"{place}.builtin: an operator has no hooks, faults or grad mode")
    if any(input.how != "value" for input in op.inputs):
        raise ProgramError(f"{place}.builtin: an operator takes no references")


def _check_backward(program: Program, step: Step, backward: Backward, place: str) -> None:
    if not backward.roots:
        raise ProgramError(f"{place}.roots: there is none")
    if not 1 <= backward.times <= MOST_TIMES:
        raise ProgramError(f"{place}.times: {backward.times} is not between 1 and {MOST_TIMES}")
    for at, back in enumerate(backward.roots):
        if not 1 <= back <= len(step.ops):
            raise ProgramError(
                f"{place}.roots[{at}]: {back} is not one of the step's {len(step.ops)} operations"
            )
        root = step.ops[-back]
        if not _kinds()[root.kind].is_root:
            raise ProgramError(f"{place}.roots[{at}]: is a {root.kind}, which is no scalar sum")
        if root.keep == "now":
            raise ProgramError(f"{place}.roots[{at}]: is dropped as soon as it is made")
    if not 1 <= abs(backward.factor) <= MOST_FACTOR:
        raise ProgramError(
            f"{place}.factor: {backward.factor} is not between 1 and {MOST_FACTOR}, or their "
            "negatives"
        )
    if backward.factor != 1 and backward.where == "rref":
        raise ProgramError(f"{place}.factor: the value of the root never comes to the trainer")
    if backward.may_fail and backward.where == "udf":
        raise ProgramError(f"{place}.may_fail: all passes of a function are one call")
    if backward.every_s is not None:
        _check_seconds(backward.every_s, f"{place}.every_s")
        if not backward.may_fail or backward.where != "here":
            raise ProgramError(
                f"{place}.every_s: is for passes on the trainer that may fail, since one pass of "
                "a context runs at a time"
            )
    if backward.where == "udf":
        _check_worker(program, backward.worker, f"{place}.worker")
    if backward.where == "rref" and (
        len(backward.roots) != 1 or step.ops[-backward.roots[0]].call not in REFERENCE_CALLS
    ):
        raise ProgramError(f"{place}.where: rref needs one root, by a call that gives a reference")


def _check_optimizer(program: Program, number: int, optimizer: Optimizer, place: str) -> None:
    if program.trainers[number].overlap:
        raise ProgramError(f"{place}: the trainer's steps overlap, so they have no order")
    for at, leaf in enumerate(optimizer.leaves):
        where = f"{place}.leaves[{at}]"
        if not 0 <= leaf < len(program.leaves):
            raise ProgramError(f"{where}: {leaf} is not one of the {len(program.leaves)} leaves")
        if not program.leaves[leaf].requires_grad:
            raise ProgramError(f"{where}: leaf {leaf} does not require grad")
        if leaf in optimizer.leaves[:at]:
            raise ProgramError(f"{where}: leaf {leaf} is there twice")
        for other, trainer in enumerate(program.trainers):
            if other != number and _uses(program, trainer, leaf):
                raise ProgramError(f"{where}: trainers[{other}] uses leaf {leaf} too")


def _uses(program: Program, trainer: Trainer, leaf: int) -> bool:
    if trainer.optimizer is not None and leaf in trainer.optimizer.leaves:
        return True
    return any(
        source(program, index, input) == (True, leaf)
        for step in trainer.steps
        for index, op in enumerate(step.ops)
        for input in op.inputs
    )


CHECKS.append(check_program)
