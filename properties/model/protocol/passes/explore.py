"""Breadth first through the states of contexts and passes, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, permutations
from typing import NamedTuple

from squall.model.protocol.passes.number_set import Numbers
from squall.model.protocol.passes.state import (
    UNMADE,
    Context,
    ContextStage,
    Gradients,
    Pass,
    Progress,
    Way,
    WorkerPass,
)
from squall.model.protocol.passes.table import RULES, RuleKind, Rules, Shape
from squall.properties.model.protocol import breadth
from squall.properties.model.protocol.breadth import Exploration, System
from squall.properties.model.protocol.passes.invariants import breaches, left, measure
from squall.properties.model.protocol.passes.world import State, World, initial


class Step(NamedTuple):
    """One step: a rule, the context that it is about, and the arguments of the rule."""

    rule: str
    context: int
    arguments: tuple[int | Numbers, ...]
    #: the worker where it happens
    worker: int

    def __str__(self) -> str:
        names = _NAMES[RULES[self.rule].shape] if self.rule in RULES else ()
        about = [f"context {self.context}"] if self.context else []
        for name, value in zip(names, self.arguments, strict=False):
            shown = list(value) if isinstance(value, Numbers) else value
            if name and shown != []:
                about.append(f"{name} {shown}")
        return f"worker {self.worker}: {self.rule}" + (f" ({', '.join(about)})" if about else "")


#: what the arguments of a rule are called; "": the worker where it happens
_NAMES: Mapping[Shape, tuple[str, ...]] = {
    Shape.WORKER: ("",),
    Shape.SENDING: ("", "to worker", "leads to pairs"),
    Shape.WORKERS: ("", "to worker"),
    Shape.BEGINNING: ("", "roots lead to pairs"),
    Shape.CONTEXT: (),
    Shape.PAIR: ("pair",),
    Shape.GRADIENTS: ("pass", "pair"),
    Shape.PART: ("pass", ""),
    Shape.CLEANUP: ("told by worker", "to worker"),
}
#: rules that programs decide on
_PROGRAMS = {name for name, rule in RULES.items() if rule.kind is RuleKind.CHOICE} | {"release"}
#: rules that happen where a message, or an answer, was to come; others where it was sent
_AT_RECEIVER = {"arrives", "gradients_leave", "answer_arrives", "gradients_time_out"}
_AT_RECEIVER |= {"gradients_are_late"}


def place(rule: str, shape: Shape, context: Context, arguments: tuple[int | Numbers, ...]) -> int:
    """The worker at which a step happens."""
    worker = context.maker
    if shape is Shape.PAIR or shape is Shape.GRADIENTS:
        number = arguments[-1]
        assert isinstance(number, int)
        pair = context.pairs[number]
        worker = pair.to if rule in _AT_RECEIVER else pair.at
    elif shape is not Shape.CONTEXT:
        at = arguments[1 if shape is Shape.PART or rule == "cleanup_arrives" else 0]
        assert isinstance(at, int)
        worker = at
    return worker


def successors(world: World, state: State, rules: Rules = RULES) -> Iterator[tuple[Step, State]]:
    """All steps from a state, and where they lead. What a step does not change is shared with it."""
    for number, context in enumerate(state.contexts):
        changed = context.copy()
        for name, (apply, kind, shape) in rules.items():
            if kind is RuleKind.FAULT and not state.faults:
                continue
            for arguments in _ARGUMENTS[shape](world, context):
                if name in _PROGRAMS and not may(world, context, name, arguments):
                    continue
                if not apply(changed, *arguments):
                    continue  # nothing is changed, and the copy is as good as new
                contexts = [*state.contexts]
                contexts[number] = changed
                worker = place(name, shape, changed, arguments)
                changed = context.copy()
                yield (
                    Step(name, number, arguments, worker),
                    State(contexts, state.faults - (kind is RuleKind.FAULT)),
                )


def may(world: World, context: Context, rule: str, arguments: tuple[int | Numbers, ...]) -> bool:
    """Whether programs of a world do this. Careful ones wait for a pass before they go on in its
    context, or release it. And they begin one only from a loss to which everything has contributed
    that was sent in the context: gradients will then come to every send function, as FAST mode takes
    for granted."""
    if rule == "reply" and not _called(context, *arguments[:2]):
        return False
    if not world.careful:
        return True
    if rule == "release_early" or any(each.runs for each in context.passes):
        return False
    if rule == "begin":
        if context.stage(context.maker) is not ContextStage.LIVE:
            return False
        roots = arguments[1]
        assert isinstance(roots, Numbers)
        used = context.reached(roots)
        return all(n in used for n, pair in enumerate(context.pairs) if pair.attached)
    return True


def _called(context: Context, at: object, to: object) -> bool:
    """Whether a worker has a call of another to answer."""
    calls = replies = 0
    for pair in context.pairs:
        calls += pair.at == to and pair.to == at and not pair.reply and pair.way is Way.ARRIVED
        replies += pair.at == at and pair.to == to and pair.reply
    return calls > replies


def _received(context: Context, worker: int) -> list[Numbers]:
    """All sets of pairs with a recv function on a worker."""
    there = context.received(worker)
    return [
        Numbers(chosen) for size in range(len(there) + 1) for chosen in combinations(there, size)
    ]


def _workers(world: World, context: Context) -> Iterator[tuple[int]]:
    return ((worker,) for worker in range(world.workers))


def _sending(world: World, context: Context) -> Iterator[tuple[int, int, Numbers]]:
    for at, to in _two_workers(world, context):
        if at in context.stages:
            for leads in _received(context, at):
                yield at, to, leads


def _two_workers(world: World, context: Context) -> Iterator[tuple[int, int]]:
    if len(context.pairs) < world.pairs:
        yield from permutations(range(world.workers), 2)


def _beginning(world: World, context: Context) -> Iterator[tuple[int, Numbers]]:
    if len(context.passes) < world.passes:
        for worker in context.stages:
            for roots in _received(context, worker):
                yield worker, roots


def _nothing(world: World, context: Context) -> Iterator[tuple[()]]:
    if context.maker != UNMADE:
        yield ()


def _pairs(world: World, context: Context) -> Iterator[tuple[int]]:
    return ((number,) for number in range(len(context.pairs)))


def _gradients(world: World, context: Context) -> Iterator[tuple[int, int]]:
    for number in range(len(context.passes)):
        for pair in range(len(context.pairs)):
            yield number, pair


def _parts(world: World, context: Context) -> Iterator[tuple[int, int]]:
    for number, each in enumerate(context.passes):
        for worker in each.parts:
            yield number, worker


def _cleanups(world: World, context: Context) -> Iterator[tuple[int, int]]:
    return iter(context.cleanups)


_ARGUMENTS: Mapping[Shape, Callable[[World, Context], Iterator[tuple[int | Numbers, ...]]]] = {
    Shape.WORKER: _workers,
    Shape.SENDING: _sending,
    Shape.WORKERS: _two_workers,
    Shape.BEGINNING: _beginning,
    Shape.CONTEXT: _nothing,
    Shape.PAIR: _pairs,
    Shape.GRADIENTS: _gradients,
    Shape.PART: _parts,
    Shape.CLEANUP: _cleanups,
}


def folded(state: State) -> State:
    """The state with its workers numbered in the order in which the contexts name them, and its
    contexts in the order in which that comes out least: no rule looks at which worker is which."""
    orders = permutations(state.contexts)
    if len(state.contexts) == 1:
        return _renamed(state)
    return min((_renamed(State(list(each), state.faults)) for each in orders), key=_order)


def _order(state: State) -> str:
    return repr([_sorted(each) for each in state.key()])


def _sorted(key: object) -> object:
    """A key in which sets have an order."""
    if isinstance(key, (frozenset, Numbers)):
        return sorted(key)
    if isinstance(key, tuple):
        return [_sorted(each) for each in key]
    return key


def _renamed(state: State) -> State:
    names: dict[int, int] = {UNMADE: UNMADE}
    for context in state.contexts:
        names.setdefault(context.maker, len(names) - 1)
        for pair in context.pairs:
            names.setdefault(pair.at, len(names) - 1)
            names.setdefault(pair.to, len(names) - 1)
    if all(old == new for old, new in names.items()):
        return state
    return State([_context_renamed(each, names) for each in state.contexts], state.faults)


def _context_renamed(context: Context, names: dict[int, int]) -> Context:
    return Context(
        names[context.maker],
        {names[worker]: stage for worker, stage in context.stages.items()},
        [replace(p, at=names[p.at], to=names[p.to]) for p in context.pairs],
        [_pass_renamed(each, names) for each in context.passes],
        {names[worker]: number for worker, number in context.latest.items()},
        {(names[by], names[to]): count for (by, to), count in context.cleanups.items()},
        frozenset((names[by], names[to]) for by, to in context.told),
    )


def _pass_renamed(each: Pass, names: dict[int, int]) -> Pass:
    parts: dict[int, WorkerPass] = {names[worker]: part for worker, part in each.parts.items()}
    return Pass(names[each.root], each.roots, parts, each.gradients)


def system(world: World, rules: Rules = RULES) -> System[State, Step]:
    """The protocol in a world."""
    return System(
        world,
        initial(world),
        lambda state: successors(world, state, rules),
        folded,
        lambda state: breaches(world, state),
        lambda state: left(world, state),
        lambda state: measure(world, state),
        lambda step: rules[step.rule].kind is RuleKind.FAIR,
    )


def explore(world: World, rules: Rules = RULES) -> Exploration:
    """Look at every state once; see :func:`squall.properties.model.protocol.breadth.explore`."""
    return breadth.explore(system(world, rules))


def retrace(world: World, keys: Sequence[Hashable], rules: Rules = RULES) -> list[Step]:
    """Steps through the states whose folded forms have these keys, from the initial one."""
    return breadth.retrace(system(world, rules), keys)


class Situation(NamedTuple):
    """A step, by what stands where it happens."""

    rule: str
    #: of the context
    stage: ContextStage
    #: the part of the pass that the step is about; of one that is about none, of that which runs
    part: Progress | None
    #: another pass runs
    other: bool
    #: the message, or the gradients
    at: Way | Gradients | None


def situation(
    rule: str, shape: Shape, context: Context, arguments: tuple[int | Numbers, ...]
) -> Situation:
    """What stands where a step happens, before it is taken."""
    worker = place(rule, shape, context, arguments)
    running = context.running(worker)
    number = running
    at: Way | Gradients | None = None
    if shape is Shape.GRADIENTS or shape is Shape.PART:
        assert isinstance(arguments[0], int)
        number = arguments[0]
    if shape is Shape.GRADIENTS:
        assert number is not None and isinstance(arguments[1], int)
        at = context.passes[number].gradients.get(arguments[1])
    elif shape is Shape.PAIR:
        assert isinstance(arguments[0], int)
        at = context.pairs[arguments[0]].way
    part = None if number is None else context.passes[number].parts.get(worker)
    progress = None if part is None else part.progress
    other = running is not None and running != number
    return Situation(rule, context.stage(worker), progress, other, at)
