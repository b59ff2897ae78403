"""The states as numbers, and the rules over whole frontiers, against the readable ones."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from squall.properties.model.protocol import arrays, explore, invariants, search
from squall.properties.model.protocol.layout import Frontier, Layout, folded
from squall.properties.model.protocol.rules import RULES
from squall.properties.model.protocol.state import Known, Stage, State, Value, World, initial

#: between them every rule is taken
SMALL = (World(2, 1, 2, 1, 1), World(3, 1, 2, 0, 0), World(2, 2, 1, 1, 0), World(2, 1, 3, 0, 0))


@cache
def states_of(world: World) -> tuple[State, ...]:
    """All states, found with the readable rules."""
    first = explore.folded(initial(world))
    found, todo = {first.key(): first}, [first]
    while todo:
        for _, after in explore.successors(world, todo.pop()):
            one = explore.folded(after)
            if one.key() not in found:
                found[one.key()] = one
                todo.append(one)
    return tuple(found.values())


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """The states go with the last test that asks for them."""
    yield
    states_of.cache_clear()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("world", SMALL, ids=str)
def test_both_give_the_same_steps_from_every_state(world: World) -> None:
    layout = Layout(world)
    states = states_of(world)
    words = np.array([layout.number(state) for state in states], np.uint64)
    fast: list[list[tuple[str, int]]] = [[] for _ in states]
    for rule, mask, reached in arrays.successors(Frontier(layout, words)):
        found = folded(layout, reached)
        for at, word in zip(np.flatnonzero(mask), found, strict=True):
            fast[at].append((rule, int(word)))
    for state, steps in zip(states, fast, strict=True):
        rules, numbers = [], []
        for step, after in explore.successors(world, state):
            rules.append(step.rule)
            numbers.append(layout.number(after))
        ends = folded(layout, np.array(numbers, np.uint64))
        readable = [(rule, int(end)) for rule, end in zip(rules, ends, strict=True)]
        assert sorted(steps) == sorted(readable), f"{state}"


def test_folding_keeps_what_is_folded_apart_and_nothing_else() -> None:
    world = World(3, 2, 1, 0, 0)
    layout = Layout(world)
    one_each: dict[tuple[object, ...], set[int]] = {}
    for state in states_of(world):
        for _, after in explore.successors(world, state):
            number = folded(layout, np.array([layout.number(after)], np.uint64))
            one_each.setdefault(explore.folded(after).key(), set()).add(int(number[0]))
    assert all(len(numbers) == 1 for numbers in one_each.values())
    assert len(set.union(*one_each.values())) == len(one_each)


def test_these_worlds_take_every_rule() -> None:
    taken: set[str] = set()
    for world in SMALL:
        layout = Layout(world)
        words = np.array([layout.number(state) for state in states_of(world)], np.uint64)
        taken |= {rule for rule, _, _ in arrays.successors(Frontier(layout, words))}
    assert taken == set(RULES)


@pytest.mark.parametrize("world", SMALL, ids=str)
def test_a_number_stands_for_one_state(world: World) -> None:
    layout = Layout(world)
    for state in states_of(world):
        assert layout.state(layout.number(state)).key() == state.key()


def damaged(world: World) -> Iterator[State]:
    """States that no rule leads to: fields of them are set to something else."""
    draw = random.Random(7)
    for state in map(State.copy, states_of(world)):
        for rref in state.references:
            if draw.random() < 0.5:
                rref.value = draw.choice(list(Value))
            for fork in rref.forks:
                if fork.parent < 0:
                    continue  # what is kept and accepted of the first is no digit
                match draw.randrange(4):
                    case 0:
                        fork.stage = draw.choice([*Stage][1 : Stage.LOST])
                    case 1:
                        fork.known = draw.choice([*Known])
                    case 2:
                        fork.kept = not fork.kept
                    case _:
                        fork.deletes = draw.randrange(1 + world.faults)
        yield state


@pytest.mark.parametrize("world", SMALL, ids=str)
def test_both_find_the_same_broken_and_left_in_damaged_states(world: World) -> None:
    layout = Layout(world)
    states = list(damaged(world))
    frontier = Frontier(layout, np.array([layout.number(each) for each in states], np.uint64))
    broken: list[set[str]] = [set() for _ in states]
    left: list[set[str]] = [set() for _ in states]
    for found, told in ((broken, search.broken_in(frontier)), (left, search.left_in(frontier))):
        for what, mask in told:
            for at in np.flatnonzero(mask):
                found[at].add(what)
    weights = search.measured(frontier)
    for at, state in enumerate(states):
        assert broken[at] == set(invariants.breaches(world, state)), f"{state}"
        assert left[at] == set(invariants.left(state)), f"{state}"
        assert weights[at] == invariants.measure(world, state), f"{state}"
    assert any(broken) and any(left)


def test_a_world_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="bits, expected at most 64"):
        Layout(World(workers=3, references=2, forks=3, faults=2))
