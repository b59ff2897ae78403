"""Programs with something cut out: trainers, steps, workers, operations, leaves, inputs.

    for candidate in cuts(program): ...

The largest cuts come first, then simplifications of what is left
(model/shrink/simplifications.py); all candidates are valid programs. Whether one still shows what somebody
looks for is for the caller to try; sim/search/shrink/shrinker.py does. Whatever used the result of
an operation that is cut out uses the first input of that operation instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from squall.model.program.acts.act import Act
from squall.model.program.acts.kind import kind_of
from squall.model.program.check import ProgramError, check_program
from squall.model.program.operations import KINDS
from squall.model.program.program import (
    REFERENCE_CALLS,
    WORKERS,
    Backward,
    Input,
    Op,
    Program,
    Step,
    Trainer,
    source,
)
from squall.model.program.strict_json import MadeError
from squall.model.program.validated import check_parts, unchecked
from squall.model.program.variants import in_one_group
from squall.model.shrink.simplifications import (
    SIMPLE_CALLS,
    SIMPLE_KINDS,
    chunks,
    simplifications,
    without,
)

#: what an input refers to: (is a leaf, its number)
Ref = tuple[bool, int]


def cuts(program: Program) -> Iterator[Program]:
    """Valid programs with less in them than ``program``, or a simpler part, the largest cuts first."""
    keeps = _keeps_graphs(program)
    for candidate in _candidates(program):
        if candidate != program and is_valid(candidate) and _keeps_graphs(candidate) >= keeps:
            yield candidate


def _keeps_graphs(program: Program) -> bool:
    """Whether every pass but the last of a step keeps the graph for those that follow."""
    return all(
        backward.retain_graph for _, _, step in program.steps for backward in step.backwards[:-1]
    )


def is_valid(program: Program) -> bool:
    """Whether the program makes sense, and each part of it is one that a file can have."""
    try:
        check_program(program)
        check_parts(program)
    except (ProgramError, MadeError):
        return False
    return True


def _candidates(program: Program) -> Iterator[Program]:
    yield from _fewer_trainers(program)
    yield from _fewer_steps(program)
    yield from _fewer_groups(program)
    yield from _fewer_workers(program)
    yield from _fewer_ops(program)
    yield from _fewer_backwards(program)
    yield from _fewer_leaves(program)
    yield from _fewer_inputs(program)
    yield from _simplified_ops(program)
    yield from simplifications(program)


# -- whole parts ----------------------------------------------------------------------------------


def _fewer_trainers(program: Program) -> Iterator[Program]:
    for gone in chunks(len(program.trainers)):
        yield unchecked(program, trainers=without(program.trainers, gone))


def _fewer_steps(program: Program) -> Iterator[Program]:
    for number, trainer in enumerate(program.trainers):
        for gone in chunks(len(trainer.steps)):
            left = without(trainer.steps, gone)
            if left:
                yield _with_trainer(program, number, unchecked(trainer, steps=left))


def _fewer_groups(program: Program) -> Iterator[Program]:
    """Two groups become one, or all do."""
    if not program.endings:
        return
    yield in_one_group(program)
    for gone in range(len(program.endings)):
        trainers = tuple(
            unchecked(
                trainer,
                steps=tuple(
                    unchecked(step, group=step.group - (step.group > gone))
                    for step in trainer.steps
                ),
            )
            for trainer in program.trainers
        )
        yield unchecked(program, trainers=trainers, endings=without(program.endings, (gone,)))


def _fewer_backwards(program: Program) -> Iterator[Program]:
    for t, s, step in program.steps:
        for gone in chunks(len(step.backwards)):
            left = without(step.backwards, gone)
            yield _with_step(program, t, s, unchecked(step, backwards=left))
        for at, backward in enumerate(step.backwards):
            for gone in chunks(len(backward.roots)):
                fewer = unchecked(backward, roots=without(backward.roots, gone))
                backwards = (*step.backwards[:at], fewer, *step.backwards[at + 1 :])
                yield _with_step(program, t, s, unchecked(step, backwards=backwards))


def _with_trainer(program: Program, number: int, trainer: Trainer) -> Program:
    trainers = list(program.trainers)
    trainers[number] = trainer
    return unchecked(program, trainers=tuple(trainers))


def _with_step(program: Program, t: int, s: int, step: Step) -> Program:
    steps = list(program.trainers[t].steps)
    steps[s] = step
    return _with_trainer(program, t, unchecked(program.trainers[t], steps=tuple(steps)))


# -- workers --------------------------------------------------------------------------------------


def _fewer_workers(program: Program) -> Iterator[Program]:
    for mapping in fewer_workers(program):
        yield with_workers(program, mapping)


def fewer_workers(program: Program) -> Iterator[dict[int, int]]:
    """Ways to put the work of one worker on another, or to leave those without work out: what
    each worker is to become. Those that are not in it are gone."""
    used = sorted(_workers(program))
    if len(used) < program.workers:
        yield {worker: at for at, worker in enumerate(used)}
    for worker in reversed(used):
        for onto in used:
            if onto != worker:
                left = [other for other in used if other != worker]
                mapping = {other: at for at, other in enumerate(left)}
                yield {**mapping, worker: mapping[onto]}


def with_workers(program: Program, mapping: Mapping[int, int]) -> Program:
    """The program with its workers renumbered, as many as there are numbers in ``mapping``."""

    def mapped(thing: Any, name: str) -> Any:
        if name in ("worker", "owner"):
            return mapping.get(thing, 0)
        if _are_workers(thing, name):
            return tuple(mapping.get(worker, 0) for worker in thing)
        return thing

    found: Program = _rewritten(program, mapped)
    return unchecked(found, workers=len(set(mapping.values())))


def _are_workers(thing: Any, name: str) -> bool:
    """Whether a field of that name has a list of workers."""
    return name in WORKERS and all(isinstance(each, int) for each in thing)


def _workers(program: Program) -> set[int]:
    found: set[int] = set()

    def note(thing: Any, name: str) -> Any:
        if name in ("worker", "owner"):
            found.add(thing)
        elif _are_workers(thing, name):
            found.update(thing)
        return thing

    _rewritten(program, note)
    return found


def _rewritten(thing: Any, change: Callable[[Any, str], Any]) -> Any:
    """A tree of dataclasses and tuples with ``change(value, name of its field)`` for each field.

    The worker of a backward pass that is on its trainer means nothing, nor does that of an act
    that calls nobody.
    """
    if isinstance(thing, tuple):
        return tuple(_rewritten(each, change) for each in thing)
    if not is_dataclass(thing) or isinstance(thing, type):
        return thing
    new = {}
    for field in fields(thing):
        value = getattr(thing, field.name)
        idle = field.name == "worker" and (
            (isinstance(thing, Backward) and thing.where != "udf")
            or (isinstance(thing, Act) and "worker" not in kind_of(thing).takes)
        )
        new[field.name] = 0 if idle else _rewritten(change(value, field.name), change)
    return unchecked(thing, **new)


# -- operations and leaves ------------------------------------------------------------------------


def _refs(program: Program, step: Step) -> list[list[Ref]]:
    """What each input of each operation refers to."""
    return [
        [source(program, index, input) for input in op.inputs] for index, op in enumerate(step.ops)
    ]


def _rewired(step: Step, refs: Sequence[Sequence[Ref]], leaves: int) -> Step:
    """The step with inputs that refer to ``refs``, of a program with so many leaves."""
    ops = []
    for index, (op, wanted) in enumerate(zip(step.ops, refs, strict=True)):
        inputs = []
        for input, (is_leaf, number) in zip(op.inputs, wanted, strict=True):
            back = index + leaves - number if is_leaf else index - number
            inputs.append(_fitting(step, unchecked(input, back=back), is_leaf, number))
        ops.append(unchecked(op, inputs=tuple(inputs)))
    return unchecked(step, ops=tuple(ops))


def _fitting(step: Step, input: Input, is_leaf: bool, number: int) -> Input:
    """The input, if what it refers to has such an output and a reference; else a plain one."""
    if is_leaf:
        return unchecked(input, output=0)
    made = step.ops[number]
    if input.output >= KINDS[made.kind].outputs:
        input = unchecked(input, output=0)
    return input if made.call in REFERENCE_CALLS else unchecked(input, how="value")


def _fewer_ops(program: Program) -> Iterator[Program]:
    for t, s, step in program.steps:
        for gone in chunks(len(step.ops)):
            yield _with_step(program, t, s, _without_ops(program, step, set(gone)))


def _without_ops(program: Program, step: Step, gone: set[int]) -> Step:
    """The step without some operations; what used them uses what they used first."""
    refs = _refs(program, step)

    def instead(ref: Ref) -> Ref:
        while not ref[0] and ref[1] in gone:
            ref = refs[ref[1]][0]
        return ref

    kept = [index for index in range(len(step.ops)) if index not in gone]
    place = {index: at for at, index in enumerate(kept)}

    def now(ref: Ref) -> Ref:
        is_leaf, number = instead(ref)
        return (True, number) if is_leaf else (False, place[number])

    backwards = []
    for backward in step.backwards:
        roots: dict[int, None] = {}
        for back in backward.roots:
            is_leaf, number = instead((False, len(step.ops) - back))
            if not is_leaf and KINDS[step.ops[number].kind].is_root:
                roots[len(kept) - place[number]] = None
        if roots:
            backwards.append(unchecked(backward, roots=tuple(roots)))
    fewer = unchecked(
        step, ops=tuple(step.ops[index] for index in kept), backwards=tuple(backwards)
    )
    return _rewired(
        fewer, [[now(ref) for ref in refs[index]] for index in kept], len(program.leaves)
    )


def _fewer_leaves(program: Program) -> Iterator[Program]:
    used = _used_leaves(program)
    for number in reversed(range(len(program.leaves))):
        if number not in used:
            yield without_leaf(program, number, number)
            continue
        for other in range(len(program.leaves)):
            if other != number and program.leaves[other].kind == program.leaves[number].kind:
                yield without_leaf(program, number, other)


def _used_leaves(program: Program) -> set[int]:
    return {
        number
        for _, _, step in program.steps
        for refs in _refs(program, step)
        for is_leaf, number in refs
        if is_leaf
    }


def without_leaf(program: Program, gone: int, instead: int) -> Program:
    """The program without a leaf; what used it uses another one."""

    def now(number: int) -> int:
        number = instead if number == gone else number
        return number - (number > gone)

    left = without(program.leaves, (gone,))
    trainers = []
    for trainer in program.trainers:
        steps = []
        for step in trainer.steps:
            refs = [
                [(is_leaf, now(n) if is_leaf else n) for is_leaf, n in each]
                for each in _refs(program, step)
            ]
            steps.append(_rewired(step, refs, len(left)))
        optimizer = trainer.optimizer
        if optimizer is not None:
            kept = tuple(now(leaf) for leaf in optimizer.leaves if leaf != gone)
            optimizer = unchecked(optimizer, leaves=kept)
        trainers.append(unchecked(trainer, steps=tuple(steps), optimizer=optimizer))
    return unchecked(program, leaves=left, trainers=tuple(trainers))


def _each_op(program: Program) -> Iterator[tuple[int, int, Step, int, Op]]:
    for t, s, step in program.steps:
        for index, op in enumerate(step.ops):
            yield t, s, step, index, op


def _with_op(program: Program, t: int, s: int, index: int, op: Op) -> Program:
    step = program.trainers[t].steps[s]
    before = step.ops[index]
    changed = unchecked(step, ops=(*step.ops[:index], op, *step.ops[index + 1 :]))
    same = before.kind == op.kind and before.call == op.call
    if not same:  # what refers to it may have to do so in another way
        new = unchecked(program, trainers=program.trainers)
        changed = _rewired(changed, _refs(new, changed), len(program.leaves))
    return _with_step(program, t, s, changed)


def _fewer_inputs(program: Program) -> Iterator[Program]:
    for t, s, step, index, op in _each_op(program):
        for gone in chunks(len(op.inputs)):
            left = without(op.inputs, gone)
            if len(left) >= KINDS[op.kind].least:
                yield _with_op(program, t, s, index, unchecked(op, inputs=left))
        # Straight from a leaf, or from what comes just before it.
        refs = _refs(program, step)[index]
        for at, ref in enumerate(refs):
            if ref[0]:
                continue
            for number in range(len(program.leaves)):
                if program.leaves[number].kind == "dense":
                    input = Input(index + len(program.leaves) - number)
                    inputs = (*op.inputs[:at], input, *op.inputs[at + 1 :])
                    yield _with_op(program, t, s, index, unchecked(op, inputs=inputs))


def _simplified_ops(program: Program) -> Iterator[Program]:
    for t, s, _, index, op in _each_op(program):
        home = program.trainers[t].worker
        calls = SIMPLE_CALLS
        for call in calls[: calls.index(op.call)] if op.call in calls else calls:
            plain = unchecked(op, call=call, builtin=False, keep="step", grad="on")
            if call == "local":
                yield _with_op(program, t, s, index, unchecked(plain, worker=home, via=()))
            else:
                yield _with_op(program, t, s, index, plain)
        for kind in SIMPLE_KINDS:
            if kind == op.kind:
                break
            inputs = op.inputs[: KINDS[kind].most]
            if not KINDS[op.kind].is_root and len(inputs) >= KINDS[kind].least:
                plain = unchecked(op, kind=kind, inputs=inputs, builtin=False)
                yield _with_op(program, t, s, index, plain)
