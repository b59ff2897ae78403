"""What features are made of: each function counts, or makes something that counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from squall.model.one_process.flow import forecast
from squall.model.program.operations import KINDS
from squall.model.program.program import (
    REFERENCE_CALLS,
    Call,
    Grad,
    Hook,
    Input,
    Keep,
    LeafHook,
    Op,
    Program,
    Step,
    Trainer,
    source,
)


class Use(NamedTuple):
    """One input of one operation, and what surrounds it."""

    trainer: Trainer
    step: Step
    at: int
    op: Op
    input: Input
    is_leaf: bool
    number: int


Feature = Callable[[Program], int]


# -- looking around -------------------------------------------------------------------------------


def _ops(program: Program) -> Iterator[tuple[Trainer, Step, int, Op]]:
    for trainer in program.trainers:
        for step in trainer.steps:
            for index, op in enumerate(step.ops):
                yield trainer, step, index, op


def _uses(program: Program) -> Iterator[Use]:
    for trainer, step, index, op in _ops(program):
        for input in op.inputs:
            is_leaf, number = source(program, index, input)
            yield Use(trainer, step, index, op, input, is_leaf, number)


def any_op(predicate: Callable[[Op], bool]) -> Feature:
    return lambda program: sum(predicate(op) for _, _, _, op in _ops(program))


def any_use(predicate: Callable[[Program, Use], bool]) -> Feature:
    return lambda program: sum(predicate(program, use) for use in _uses(program))


def call(*calls: Call) -> Feature:
    return any_op(lambda op: op.call in calls)


def shown(feature: str) -> Feature:
    """Operations whose kind says that it shows this feature."""
    return any_op(lambda op: feature in KINDS[op.kind].shows)


def several_outputs(op: Op) -> bool:
    return KINDS[op.kind].outputs > 1


def remote_table(program: Program, use: Use) -> bool:
    """A lookup in a table of another worker."""
    takes_table = KINDS[use.op.kind].takes_table
    return takes_table and program.leaves[use.number].owner != use.op.worker


def grad(grad: Grad) -> Feature:
    return any_op(lambda op: op.grad == grad)


def hook(*hooks: Hook) -> Feature:
    return any_op(lambda op: any(hook in op.hooks for hook in hooks))


def leaf_hook(*hooks: LeafHook) -> Feature:
    return lambda program: sum(hook in leaf.hooks for leaf in program.leaves for hook in hooks)


def keep(keep: Keep) -> Feature:
    return any_op(lambda op: op.keep == keep)


def fault(fault: str) -> Feature:
    return any_op(lambda op: op.fault == fault)


def dtype(dtype: str) -> Feature:
    return lambda program: sum(leaf.dtype == dtype for leaf in program.leaves)


def depth(hops: int) -> Feature:
    return any_op(lambda op: op.call != "local" and len(op.via) + 1 == hops)


def _path(trainer: Trainer, op: Op) -> tuple[int, ...]:
    return (trainer.worker, *op.via, op.worker)


def _is_called(op: Op) -> bool:
    return op.call != "local"


# -- features of calls ----------------------------------------------------------------------------


def self_calls(program: Program) -> int:
    return sum(
        _is_called(op) and any(a == b for a, b in pairwise(path))
        for trainer, _, _, op in _ops(program)
        for path in (_path(trainer, op),)
    )


def calls_back(program: Program) -> int:
    """A worker on the way is asked by one that it asked."""
    return sum(
        _is_called(op)
        and any(a == c != b for a, b, c in zip(path, path[1:], path[2:], strict=False))
        for trainer, _, _, op in _ops(program)
        for path in (_path(trainer, op),)
    )


def sent_twice_in_one(program: Program) -> int:
    found = 0
    for _, _, index, op in _ops(program):
        if not _is_called(op):
            continue
        sent = [
            input
            for input in op.inputs
            if input.how == "value" and not _own_leaf(program, index, op, input)
        ]
        found += len({(x.back, x.output) for x in sent}) < len(sent)
    return found


def sent_in_several(program: Program) -> int:
    found = 0
    for trainer in program.trainers:
        for step in trainer.steps:
            seen: dict[tuple[int, int], int] = {}
            for index, op in enumerate(step.ops):
                if _is_called(op):
                    keys = {
                        (index - x.back, x.output)
                        for x in op.inputs
                        if x.how == "value" and not _own_leaf(program, index, op, x)
                    }
                    for key in sorted(keys):
                        seen[key] = seen.get(key, 0) + 1
            found += sum(count > 1 for count in seen.values())
    return found


def _own_leaf(program: Program, index: int, op: Op, input: Input) -> bool:
    is_leaf, number = source(program, index, input)
    return is_leaf and program.leaves[number].owner == op.worker and not op.builtin


# -- features of references -----------------------------------------------------------------------


def _owner(program: Program, use: Use) -> int:
    if use.is_leaf:
        return program.leaves[use.number].owner
    return use.step.ops[use.number].worker


def forked(owner_is_home: bool | None, to_owner: bool | None) -> Feature:
    def predicate(program: Program, use: Use) -> bool:
        if use.input.how == "value" or use.op.call == "local":
            return False
        owner = _owner(program, use)
        first = use.op.via[0] if use.op.via else use.op.worker
        home = use.trainer.worker
        return (owner_is_home is None or (owner == home) == owner_is_home) and (
            to_owner is None or (first == owner) == to_owner
        )

    return any_use(predicate)


def early(program: Program, use: Use) -> bool:
    """A reference is handed on right after ``remote`` made it, and nobody waited in between."""
    if use.input.how == "value" or use.is_leaf or use.op.call == "local":
        return False
    between = use.step.ops[use.number + 1 : use.at]
    return use.step.ops[use.number].call in ("remote", "helper_remote") and all(
        op.call in ("async", "remote", "helper_async", "helper_remote") for op in between
    )


def fetched(program: Program, use: Use) -> bool:
    if use.is_leaf or use.step.ops[use.number].call not in REFERENCE_CALLS:
        return False
    return use.input.how == "value" or _owner(program, use) != use.op.worker


# -- features of graphs -----------------------------------------------------------------------------


def _consumers(program: Program, step: Step) -> dict[int, list[int]]:
    """Which operations use each value; leaves by their negative position."""
    found: dict[int, list[int]] = {}
    for index, op in enumerate(step.ops):
        for at in dict.fromkeys(index - input.back for input in op.inputs):
            found.setdefault(at, []).append(index)
    return found


def fan_out(program: Program) -> int:
    return sum(
        len({step.ops[user].worker for user in users}) > 1
        for _, _, step in program.steps
        for users in _consumers(program, step).values()
    )


def fan_in_workers(program: Program, index: int, step: Step) -> set[int]:
    """On which workers the inputs of an operation were made, or live."""
    workers = set()
    for input in step.ops[index].inputs:
        is_leaf, number = source(program, index, input)
        workers.add(program.leaves[number].owner if is_leaf else step.ops[number].worker)
    return workers


def fan_in(program: Program) -> int:
    return sum(len(fan_in_workers(program, index, step)) > 1 for _, step, index, _ in _ops(program))


def diamonds(program: Program) -> int:
    """A value reaches an operation by way of two workers."""
    found = 0
    for _, _, step in program.steps:
        above = _ancestors(step)
        for index, op in enumerate(step.ops):
            parents = list(dict.fromkeys(index - x.back for x in op.inputs if index >= x.back))
            found += any(
                above[a] & above[b] and step.ops[a].worker != step.ops[b].worker
                for n, a in enumerate(parents)
                for b in parents[:n]
            )
    return found


def _ancestors(step: Step) -> list[set[int]]:
    above: list[set[int]] = []
    for index, op in enumerate(step.ops):
        mine: set[int] = set()
        for input in op.inputs:
            at = index - input.back
            mine.add(at)
            if at >= 0:
                mine |= above[at]
        above.append(mine)
    return above


def chains(program: Program) -> int:
    """Operations at the end of a chain of three, each on another worker than the one before."""
    found = 0
    for _, _, step in program.steps:
        lengths: list[int] = []
        for index, op in enumerate(step.ops):
            length = 1
            for input in op.inputs:
                at = index - input.back
                if at >= 0 and step.ops[at].worker != op.worker:
                    length = max(length, lengths[at] + 1)
            lengths.append(length)
        found += sum(length >= 3 for length in lengths)
    return found


def reuse(program: Program) -> int:
    return sum(
        len(users) > 1
        for _, _, step in program.steps
        for users in _consumers(program, step).values()
    )


def shared_subexpression(program: Program) -> int:
    """What one operation made is used on two other workers."""
    return sum(
        len({step.ops[user].worker for user in users} - {step.ops[at].worker}) > 1
        for _, _, step in program.steps
        for at, users in _consumers(program, step).items()
        if at >= 0
    )


def shared_leaves(program: Program) -> int:
    users: dict[int, set[int]] = {}
    for number, trainer in enumerate(program.trainers):
        for step in trainer.steps:
            for index, op in enumerate(step.ops):
                for input in op.inputs:
                    is_leaf, leaf = source(program, index, input)
                    if is_leaf:
                        users.setdefault(leaf, set()).add(number)
    return sum(len(trainers) > 1 for trainers in users.values())


def sparse_and_dense(program: Program) -> int:
    """A table that one step looks up in and uses whole as well."""
    found = 0
    for _, _, step in program.steps:
        sparse: set[int] = set()
        dense: set[int] = set()
        for index, op in enumerate(step.ops):
            for input in op.inputs:
                is_leaf, leaf = source(program, index, input)
                if is_leaf and program.leaves[leaf].kind == "embedding":
                    (sparse if KINDS[op.kind].takes_table else dense).add(leaf)
        found += len(sparse & dense)
    return found


def mixed_message(program: Program) -> int:
    """A call that takes both an input with gradients (a leaf) and one without."""
    found = 0
    for _, _, index, op in _ops(program):
        if not _is_called(op):
            continue
        grads = {
            program.leaves[number].requires_grad
            for input in op.inputs
            for is_leaf, number in (source(program, index, input),)
            if is_leaf and not _own_leaf(program, index, op, input)
        }
        found += len(grads) == 2
    return found


def broadcasts(program: Program) -> int:
    """Two leaves of different shapes meet."""
    found = 0
    for _, _, index, op in _ops(program):
        if "broadcasting" in KINDS[op.kind].shows:
            shapes = {
                program.leaves[number].shape
                for input in op.inputs
                for is_leaf, number in (source(program, index, input),)
                if is_leaf
            }
            found += len(shapes) == 2
    return found


def left_out(program: Program) -> int:
    """Operations with several outputs of which some are used and some are not."""
    found = 0
    for _, _, step in program.steps:
        used: dict[int, set[int]] = {}
        for index, op in enumerate(step.ops):
            for input in op.inputs:
                used.setdefault(index - input.back, set()).add(input.output)
        found += sum(
            several_outputs(op) and len(used.get(at, ())) == 1 for at, op in enumerate(step.ops)
        )
    return found


def unfed(program: Program) -> int:
    return sum(bool(forecast(program, t, s).unfed) for t, s, _ in program.steps)


# -- features of backward ----------------------------------------------------------------------------


def passes(program: Program) -> int:
    return sum(
        sum(backward.times for backward in step.backwards) > 1 for _, _, step in program.steps
    )


def where(where: str) -> Feature:
    return lambda program: sum(
        backward.where == where for _, _, step in program.steps for backward in step.backwards
    )


def at_once(program: Program) -> int:
    return max(sum(len(t.steps) if t.overlap else 1 for t in program.trainers) - 1, 0)
