"""Breadth first through all states of a transition system, one at a time, whatever it is about."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

NOTHING_ENDS = "a step does not bring the end nearer"


class Keyed(Protocol):
    """A state: equal states have equal keys."""

    def key(self) -> Hashable: ...


S = TypeVar("S", bound=Keyed)
T = TypeVar("T")


@dataclass
class Exploration:
    """What a search through all states came to."""

    #: what bounds it
    world: Any
    #: how many states are reached by each number of steps and by no fewer
    levels: list[int] = field(default_factory=list)
    #: how many steps there are between them
    steps: int = 0
    #: whether these are all
    exhausted: bool = True
    #: what is broken, if anything is; the search ends there
    breach: str | None = None
    #: the shortest way to that
    path: list[Any] = field(default_factory=list)

    @property
    def states(self) -> int:
        return sum(self.levels)

    def __str__(self) -> str:
        """The counterexample, a step a line; or how many states there are."""
        if self.breach is None:
            return f"{self.states:,} states, {self.steps:,} steps: nothing is broken"
        lines = [f"{number:3}. {step}" for number, step in enumerate(self.path, 1)]
        return "\n".join([f"{self.breach}, after {len(self.path)} steps:", *lines])


class System(NamedTuple, Generic[S, T]):
    """States of type S and steps of type T, and what is asked of them."""

    world: Any
    initial: S
    successors: Callable[[S], Iterator[tuple[T, S]]]
    #: one state for all that behave alike
    folded: Callable[[S], S]
    #: what a state breaks, in words
    breaches: Callable[[S], Iterable[str]]
    #: what is left of a state in which nothing has to happen, in words
    left: Callable[[S], Iterable[str]]
    #: a number that each step lowers
    measure: Callable[[S], int]
    #: whether a step is taken in the end, unless another one makes it impossible
    is_fair: Callable[[T], bool]


def explore(system: System[S, T]) -> Exploration:
    """Look at every state once. Ends at the first that breaks an invariant, that leaves something
    behind, or from which a step leads no nearer to the end."""
    found = Exploration(system.world)
    folded, measure = system.folded, system.measure
    first = folded(system.initial)
    came: dict[Hashable, Hashable | None] = {first.key(): None}
    level = [first]
    while level:
        found.levels.append(len(level))
        after: list[S] = []
        for state in level:
            key = state.key()
            broken = next(iter(system.breaches(state)), None)
            must_go_on = False
            weight = measure(state)
            if broken is None:
                for step, reached in system.successors(state):
                    found.steps += 1
                    must_go_on = must_go_on or system.is_fair(step)
                    if measure(reached) >= weight:
                        broken = broken or f"{NOTHING_ENDS}: {step}"
                    one = folded(reached)
                    one_key = one.key()
                    if one_key not in came:
                        came[one_key] = key
                        after.append(one)
                if not must_go_on:
                    broken = broken or next(iter(system.left(state)), None)
            if broken is not None:
                found.breach = broken
                found.path = retrace(system, _way(came, key))
                return found
        level = after
    return found


def _way(came: dict[Hashable, Hashable | None], key: Hashable) -> list[Hashable]:
    """The keys of the states on the way to a state, without that of the first."""
    keys = []
    here: Hashable | None = key
    while here is not None:
        keys.append(here)
        here = came[here]
    return keys[-2::-1]


def retrace(system: System[S, T], keys: Sequence[Hashable]) -> list[T]:
    """Steps through the states whose folded forms have these keys, from the initial one: the workers
    have one name all along."""
    state = system.initial
    path = []
    for key in keys:
        step, state = next(
            (step, after)
            for step, after in system.successors(state)
            if system.folded(after).key() == key
        )
        path.append(step)
    return path
