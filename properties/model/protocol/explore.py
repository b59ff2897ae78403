"""Breadth first through the states of the protocol, one at a time: for reading, for counterexamples,
and for rules with an error in them. :mod:`squall.properties.model.protocol.arrays` does the same for whole
frontiers, thirty times as fast.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import permutations, product
from typing import NamedTuple

from squall.properties.model.protocol import breadth
from squall.properties.model.protocol.breadth import NOTHING_ENDS, Exploration, System
from squall.properties.model.protocol.invariants import breaches, left, measure
from squall.properties.model.protocol.rules import RULES, Kind, Rule, Rules, Shape
from squall.properties.model.protocol.state import UNMADE, Reference, State, World, initial

__all__ = ["NOTHING_ENDS", "Exploration", "Step", "explore", "folded", "retrace", "successors"]


class Step(NamedTuple):
    """One step: a rule, the reference it is about, and its fork or its workers."""

    rule: str
    reference: int
    #: the number of the fork that it is about, or that it makes; -1: none
    fork: int
    #: the worker where it happens
    worker: int
    #: the worker that a new fork, or a creation, is sent to; -1: none
    to: int = -1
    #: the fork that a new one is made of; -1: none
    parent: int = -1

    def __str__(self) -> str:
        about = f"reference {self.reference}"
        if self.fork >= 0:
            about += f", fork {self.fork}"
        if self.parent >= 0:
            about += f" of fork {self.parent}"
        if self.to >= 0:
            about += f", to worker {self.to}"
        return f"worker {self.worker}: {self.rule} ({about})"


#: rules of forks that happen at the owner, and at the worker of the parent; others where the user is
_AT_OWNER = {
    "creation_begins",
    "creation_ends",
    "creation_fails",
    "request_arrives",
    "delete_arrives",
    "fetch_arrives",
}
_AT_PARENT = {"accept_arrives", "take_back", "lose_carrier"}


def place(rule: str, rref: Reference, fork: int) -> int:
    """The worker at which a step about a fork happens: where a message arrives, or was sent."""
    each = rref.forks[fork]
    if rule in _AT_OWNER:
        return rref.owner
    if rule in _AT_PARENT:
        return rref.owner if each.parent < 0 else rref.forks[each.parent].at
    return each.at


def successors(world: World, state: State, rules: Rules = RULES) -> Iterator[tuple[Step, State]]:
    """All steps from a state, and where they lead. What a step does not change is shared with it."""
    for number, rref in enumerate(state.references):
        changed = rref.copy()
        for name, rule in rules.items():
            if rule.kind is Kind.FAULT and not state.faults:
                continue
            if name == "fetch" and not state.fetches:
                continue
            for fork, worker, arguments in _arguments(world, rref, rule, name):
                if not _applied(rule, changed, arguments):
                    continue  # nothing is changed, and the copy is as good as new
                references = [*state.references]
                references[number], changed = changed, rref.copy()
                faults = state.faults - (rule.kind is Kind.FAULT)
                after = State(references, faults, state.fetches - (name == "fetch"))
                yield _step(name, number, fork, worker, rule, arguments), after


def _applied(rule: Rule, rref: Reference, arguments: tuple[int, ...]) -> bool:
    """Take a step, if it can be taken. Forks are given by their numbers."""
    if rule.shape is Shape.FORK or rule.shape is Shape.SHARING:
        return rule.apply(rref, rref.forks[arguments[0]], *arguments[1:])
    return rule.apply(rref, *arguments)


def _step(
    name: str, reference: int, fork: int, worker: int, rule: Rule, arguments: tuple[int, ...]
) -> Step:
    step = Step(name, reference, fork, worker)
    if rule.shape is Shape.CREATION or rule.shape is Shape.OWNER_SHARING:
        return step._replace(to=arguments[0])
    if rule.shape is Shape.SHARING:
        return step._replace(parent=arguments[0], to=arguments[1])
    return step


def _arguments(
    world: World, rref: Reference, rule: Rule, name: str
) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """(fork that it is about or makes, worker where it happens, arguments) of each way to take it."""
    workers = range(world.workers)
    new = len(rref.forks)
    room = new < world.forks
    if rule.shape is Shape.FORK:
        for fork in range(new):
            yield fork, place(name, rref, fork), (fork,)
    elif rule.shape is Shape.REFERENCE:
        yield -1, rref.owner, ()
    elif rule.shape is Shape.MAKING:
        for owner in workers:
            yield -1, owner, (owner,)
    elif rule.shape is Shape.CREATION:
        for owner, creator in permutations(workers, 2):
            yield 0, creator, (owner, creator)
    elif rule.shape is Shape.OWNER_SHARING and room:
        for at in workers:
            yield new, rref.owner, (at,)
    elif rule.shape is Shape.SHARING and room:
        for parent, at in product(range(new), workers):
            yield new, rref.forks[parent].at, (parent, at)


def folded(state: State) -> State:
    """The state with its workers numbered in the order in which the references name them, and its
    references in the order in which that comes out least. Two states with one folded state behave
    alike: no rule looks at which worker is which."""
    orders = permutations(state.references)
    return min(
        (_renamed(State(list(each), state.faults, state.fetches)) for each in orders), key=_key
    )


def _key(state: State) -> tuple[object, ...]:
    return state.key()


def _renamed(state: State) -> State:
    names: dict[int, int] = {UNMADE: UNMADE}
    after = state.copy()
    for rref in after.references:
        rref.owner = names.setdefault(rref.owner, len(names) - 1)
        for fork in rref.forks:
            fork.at = names.setdefault(fork.at, len(names) - 1)
    return after


def system(world: World, rules: Rules = RULES) -> System[State, Step]:
    """The protocol in a world."""
    return System(
        world,
        initial(world),
        lambda state: successors(world, state, rules),
        folded,
        lambda state: breaches(world, state),
        left,
        lambda state: measure(world, state),
        lambda step: rules[step.rule].kind is Kind.FAIR,
    )


def explore(world: World, rules: Rules = RULES) -> Exploration:
    """Look at every state once; see :func:`squall.properties.model.protocol.breadth.explore`."""
    return breadth.explore(system(world, rules))


def retrace(world: World, keys: Sequence[Hashable], rules: Rules = RULES) -> list[Step]:
    """Steps through the states whose folded forms have these keys, from the initial one."""
    return breadth.retrace(system(world, rules), keys)
