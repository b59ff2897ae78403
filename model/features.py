"""What a program has in it: how often each feature occurs.

``squall fuzz --stats`` adds these up over a campaign. A feature that a large campaign never
reaches is a defect of the generator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from model.flow import forecast
from model.program import (
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

_VIEWS = frozenset({"flat", "transpose", "narrow", "expand", "split"})
_CUSTOM = frozenset({"custom", "custom_two", "custom_half"})
_SEVERAL = frozenset({"split", "pair", "mixed", "custom_two"})
_SPREADING = frozenset({"add", "mul", "sub", "in_place"})


class Use(NamedTuple):
    """One input of one operation, and what surrounds it."""

    trainer: Trainer
    step: Step
    index: int
    op: Op
    input: Input
    is_leaf: bool
    number: int


Feature = Callable[[Program], int]


def features(program: Program) -> dict[str, int]:
    """How often each feature occurs in the program; 0 where it does not."""
    return {name: int(count(program)) for name, count in FEATURES.items()}


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


def _any_op(predicate: Callable[[Op], bool]) -> Feature:
    return lambda program: sum(predicate(op) for _, _, _, op in _ops(program))


def _any_use(predicate: Callable[[Program, Use], bool]) -> Feature:
    return lambda program: sum(predicate(program, use) for use in _uses(program))


def _call(*calls: Call) -> Feature:
    return _any_op(lambda op: op.call in calls)


def _kind(*kinds: str) -> Feature:
    return _any_op(lambda op: op.kind in kinds)


def _grad(grad: Grad) -> Feature:
    return _any_op(lambda op: op.grad == grad)


def _hook(*hooks: Hook) -> Feature:
    return _any_op(lambda op: any(hook in op.hooks for hook in hooks))


def _leaf_hook(*hooks: LeafHook) -> Feature:
    return lambda program: sum(hook in leaf.hooks for leaf in program.leaves for hook in hooks)


def _keep(keep: Keep) -> Feature:
    return _any_op(lambda op: op.keep == keep)


def _fault(fault: str) -> Feature:
    return _any_op(lambda op: op.fault == fault)


def _dtype(dtype: str) -> Feature:
    return lambda program: sum(leaf.dtype == dtype for leaf in program.leaves)


def _depth(hops: int) -> Feature:
    return _any_op(lambda op: op.call != "local" and len(op.via) + 1 == hops)


def _path(trainer: Trainer, op: Op) -> tuple[int, ...]:
    return (trainer.worker, *op.via, op.worker)


def _is_called(op: Op) -> bool:
    return op.call != "local"


# -- features of calls ----------------------------------------------------------------------------


def _self_calls(program: Program) -> int:
    return sum(
        _is_called(op) and any(a == b for a, b in zip(path, path[1:], strict=False))
        for trainer, _, _, op in _ops(program)
        for path in (_path(trainer, op),)
    )


def _calls_back(program: Program) -> int:
    """A worker on the way is asked by one that it asked."""
    return sum(
        _is_called(op)
        and any(a == c != b for a, b, c in zip(path, path[1:], path[2:], strict=False))
        for trainer, _, _, op in _ops(program)
        for path in (_path(trainer, op),)
    )


def _sent_twice_in_one(program: Program) -> int:
    found = 0
    for trainer, _, index, op in _ops(program):
        if not _is_called(op):
            continue
        sent = [
            input
            for input in op.inputs
            if input.how == "value" and not _own_leaf(program, index, op, input)
        ]
        found += len({(x.back, x.output) for x in sent}) < len(sent)
    return found


def _sent_in_several(program: Program) -> int:
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


def _forked(owner_is_home: bool | None, to_owner: bool | None) -> Feature:
    def predicate(program: Program, use: Use) -> bool:
        if use.input.how == "value" or use.op.call == "local":
            return False
        owner = _owner(program, use)
        first = use.op.via[0] if use.op.via else use.op.worker
        home = use.trainer.worker
        return (owner_is_home is None or (owner == home) == owner_is_home) and (
            to_owner is None or (first == owner) == to_owner
        )

    return _any_use(predicate)


def _early(program: Program, use: Use) -> bool:
    """A reference is handed on right after ``remote`` made it, and nobody waited in between."""
    if use.input.how == "value" or use.is_leaf or use.op.call == "local":
        return False
    between = use.step.ops[use.number + 1 : use.index]
    return use.step.ops[use.number].call in ("remote", "helper_remote") and all(
        op.call in ("async", "remote", "helper_async", "helper_remote") for op in between
    )


def _fetched(program: Program, use: Use) -> bool:
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


def _fan_out(program: Program) -> int:
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


def _fan_in(program: Program) -> int:
    return sum(len(fan_in_workers(program, index, step)) > 1 for _, step, index, _ in _ops(program))


def _diamonds(program: Program) -> int:
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


def _chains(program: Program) -> int:
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


def _reuse(program: Program) -> int:
    return sum(
        len(users) > 1
        for _, _, step in program.steps
        for users in _consumers(program, step).values()
    )


def _shared_subexpression(program: Program) -> int:
    """What one operation made is used on two other workers."""
    return sum(
        len({step.ops[user].worker for user in users} - {step.ops[at].worker}) > 1
        for _, _, step in program.steps
        for at, users in _consumers(program, step).items()
        if at >= 0
    )


def _shared_leaves(program: Program) -> int:
    users: dict[int, set[int]] = {}
    for number, trainer in enumerate(program.trainers):
        for step in trainer.steps:
            for index, op in enumerate(step.ops):
                for input in op.inputs:
                    is_leaf, leaf = source(program, index, input)
                    if is_leaf:
                        users.setdefault(leaf, set()).add(number)
    return sum(len(trainers) > 1 for trainers in users.values())


def _sparse_and_dense(program: Program) -> int:
    """A table that one step looks up in and uses whole as well."""
    found = 0
    for _, _, step in program.steps:
        sparse: set[int] = set()
        dense: set[int] = set()
        for index, op in enumerate(step.ops):
            for input in op.inputs:
                is_leaf, leaf = source(program, index, input)
                if is_leaf and program.leaves[leaf].kind == "embedding":
                    (sparse if op.kind == "embedding" else dense).add(leaf)
        found += len(sparse & dense)
    return found


def _mixed_message(program: Program) -> int:
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


def _broadcasts(program: Program) -> int:
    """Two leaves of different shapes meet."""
    found = 0
    for _, _, index, op in _ops(program):
        if op.kind in _SPREADING:
            shapes = {
                program.leaves[number].shape
                for input in op.inputs
                for is_leaf, number in (source(program, index, input),)
                if is_leaf
            }
            found += len(shapes) == 2
    return found


def _left_out(program: Program) -> int:
    """Operations with several outputs of which some are used and some are not."""
    found = 0
    for _, _, step in program.steps:
        used: dict[int, set[int]] = {}
        for index, op in enumerate(step.ops):
            for input in op.inputs:
                used.setdefault(index - input.back, set()).add(input.output)
        found += sum(
            op.kind in _SEVERAL and len(used.get(at, ())) == 1 for at, op in enumerate(step.ops)
        )
    return found


def _unfed(program: Program) -> int:
    return sum(bool(forecast(program, t, s).unfed) for t, s, _ in program.steps)


# -- features of backward ----------------------------------------------------------------------------


def _passes(program: Program) -> int:
    return sum(
        sum(backward.times for backward in step.backwards) > 1 for _, _, step in program.steps
    )


def _where(where: str) -> Feature:
    return lambda program: sum(
        backward.where == where for _, _, step in program.steps for backward in step.backwards
    )


def _at_once(program: Program) -> int:
    return max(sum(len(t.steps) if t.overlap else 1 for t in program.trainers) - 1, 0)


#: by name, in the order of the list in the documentation
FEATURES: dict[str, Feature] = {
    "1 worker": lambda p: p.workers == 1,
    "2-4 workers": lambda p: 2 <= p.workers <= 4,
    "5-8 workers": lambda p: 5 <= p.workers <= 8,
    "1 trainer": lambda p: len(p.trainers) == 1,
    "2-4 trainers": lambda p: 2 <= len(p.trainers) <= 4,
    "several steps": lambda p: sum(len(t.steps) > 1 for t in p.trainers),
    "overlapping steps": lambda p: sum(t.overlap for t in p.trainers),
    "mode exact": lambda p: p.mode == "exact",
    "mode float": lambda p: p.mode == "float",
    # calls
    "rpc_sync": _call("sync"),
    "rpc_async": _call("async"),
    "remote": _call("remote", "helper_remote"),
    "to_here": _any_use(_fetched),
    "async_execution": _call("async_execution"),
    "RRef.rpc_sync": _call("helper_sync"),
    "RRef.rpc_async": _call("helper_async"),
    "RRef.remote": _call("helper_remote"),
    "builtin operator": _any_op(lambda op: op.builtin),
    "nested to depth 2": _depth(2),
    "nested to depth 3": _depth(3),
    "nested to depth 4": _depth(4),
    "relay that computes": _any_op(lambda op: bool(op.via) and op.relay != "pass"),
    "call to self": _self_calls,
    "call back to the caller": _calls_back,
    "tensor twice in one message": _sent_twice_in_one,
    "tensor in several messages": _sent_in_several,
    # references
    "RRef to user": _forked(False, False),
    "RRef to its owner": _forked(False, True),
    "RRef from its owner": _forked(True, False),
    "RRef returned by its owner": _any_op(lambda op: op.call == "rref"),
    "RRef returned by a user": _any_op(lambda op: op.call == "remote" and bool(op.via)),
    "RRef passed before its value": _any_use(_early),
    "RRef kept past the step": _keep("program"),
    "RRef kept by another worker": _any_use(lambda p, use: use.input.how == "kept_rref"),
    "RRef dropped at once": _keep("now"),
    "RRef dropped after its last use": _keep("use"),
    "parameters on several owners": lambda p: (
        len({x.owner for x in p.leaves if x.requires_grad}) > 1
    ),
    "RRef.backward": _where("rref"),
    # graphs
    "chain across workers": _chains,
    "diamond across workers": _diamonds,
    "fan-out across workers": _fan_out,
    "fan-in across workers": _fan_in,
    "reuse": _reuse,
    "shared sub-expression across workers": _shared_subexpression,
    "input without grad": _any_use(
        lambda p, use: use.is_leaf and not p.leaves[use.number].requires_grad
    ),
    "message with and without grad": _mixed_message,
    "some outputs unused": _left_out,
    "unfed send function": _unfed,
    "outputs with and without grad": _kind("mixed"),
    "detach": _kind("detach"),
    "no_grad on the callee": _grad("off"),
    "no_grad on the caller": _grad("off_at_caller"),
    "several outputs": _any_op(lambda op: op.kind in _SEVERAL),
    "view": _any_op(lambda op: op.kind in _VIEWS),
    "in-place": _kind("in_place"),
    "broadcasting": _broadcasts,
    "custom Function": _any_op(lambda op: op.kind in _CUSTOM),
    "custom Function with several outputs": _kind("custom_two"),
    "undefined gradient": _kind("custom_half"),
    "input handed back": _kind("pass"),
    "float32": _dtype("float32"),
    "float64": _dtype("float64"),
    "bfloat16": _dtype("bfloat16"),
    "complex64": _dtype("complex64"),
    "cast": _kind("cast"),
    "sparse gradient": _kind("embedding"),
    "sparse gradient of another worker's table": _any_use(
        lambda p, use: use.op.kind == "embedding" and p.leaves[use.number].owner != use.op.worker
    ),
    "sparse and dense gradient": _sparse_and_dense,
    "zero-size tensor": lambda p: sum(0 in leaf.shape for leaf in p.leaves),
    "scalar": lambda p: sum(leaf.shape == () for leaf in p.leaves),
    "parameter of several trainers": _shared_leaves,
    # backward
    "several roots": lambda p: sum(len(b.roots) > 1 for _, _, s in p.steps for b in s.backwards),
    "several backwards": _passes,
    "retain_graph": lambda p: sum(b.retain_graph for _, _, s in p.steps for b in s.backwards),
    "backwards in several contexts at once": _at_once,
    "backward in a function": _where("udf"),
    "error in a function": _fault("udf"),
    "error in Function.backward": _fault("backward"),
    "error in a hook": _fault("hook"),
    "retry": lambda p: sum(step.retry for _, _, step in p.steps),
    "tensor hook": _hook("double", "increment", "look"),
    "hook that counts its calls": _hook("increment"),
    "hooks of a node": _hook("node_pre", "node_post"),
    "retain_grad": _hook("retain_grad"),
    "tensor hook of a leaf": _leaf_hook("double", "increment", "look"),
    "hooks of AccumulateGrad": _leaf_hook("accumulate_pre", "accumulate_post"),
    "post-accumulate hook": _leaf_hook("post_accumulate"),
    "optimizer step": lambda p: sum(step.optimize for _, _, step in p.steps),
}
