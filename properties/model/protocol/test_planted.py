"""Errors planted in the rules are found, each by a shortest way to what it breaks."""

from __future__ import annotations

import pytest

from squall.properties.model.protocol.explore import NOTHING_ENDS, Exploration, explore, successors
from squall.properties.model.protocol.invariants import breaches, left
from squall.properties.model.protocol.planted import PLANTED, TOO_STRICT
from squall.properties.model.protocol.rules import Rules
from squall.properties.model.protocol.state import World, initial

#: without faults first: what is found there has the shorter story
WORLDS = (World(2, 1, 2, 0, 1), World(2, 1, 2, 1, 1))


def search(rules: Rules) -> Exploration:
    for world in WORLDS:
        found = explore(world, rules)
        if found.breach is not None:
            break
    return found


def test_there_are_enough() -> None:
    assert len(PLANTED) >= 15 and len(TOO_STRICT) >= 5
    assert not PLANTED.keys() & TOO_STRICT.keys()


@pytest.mark.parametrize("what", PLANTED)
def test_an_error_is_found_by_an_invariant(what: str) -> None:
    found = search(PLANTED[what])
    assert found.breach is not None
    state = initial(found.world)
    for step in found.path:
        (state,) = [
            to for each, to in successors(found.world, state, PLANTED[what]) if each == step
        ]
    broken = {*breaches(found.world, state), *left(state)}
    assert found.breach in broken or found.breach.startswith(NOTHING_ENDS)
    assert len(found.path) == len(found.levels) - 1  # no state nearer by is broken


def test_a_counterexample_can_be_read() -> None:
    found = search(PLANTED["a user goes before its child is accepted"])
    assert str(found).splitlines() == [
        "a parent is gone before its child is accepted, after 5 steps:",
        "  1. worker 0: make (reference 0)",
        "  2. worker 0: share_owner (reference 0, fork 0, to worker 1)",
        "  3. worker 1: arrives (reference 0, fork 0)",
        "  4. worker 1: share_user (reference 0, fork 1 of fork 0, to worker 0)",
        "  5. worker 1: drop (reference 0, fork 0)",
    ]
