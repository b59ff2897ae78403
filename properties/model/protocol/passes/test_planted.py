"""Errors planted in the rules are found, each by a shortest way to what it breaks."""

from __future__ import annotations

import pytest

from squall.model.protocol.passes.table import Rules
from squall.properties.model.protocol.breadth import NOTHING_ENDS, Exploration
from squall.properties.model.protocol.passes.explore import explore, successors
from squall.properties.model.protocol.passes.invariants import breaches, left
from squall.properties.model.protocol.passes.planted import PLANTED
from squall.properties.model.protocol.passes.world import World, initial

#: without faults first: what is found there has the shorter story
WORLDS = (World(2, 1, 1), World(2, 1, 2), World(3, 1, 2), World(2, 1, 2, 2, 1), World(2, 1, 3))


def search(rules: Rules) -> Exploration:
    for world in WORLDS:
        found = explore(world, rules)
        if found.breach is not None:
            break
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize("what", PLANTED)
def test_an_error_is_found_by_an_invariant(what: str) -> None:
    found = search(PLANTED[what])
    assert found.breach is not None
    state = initial(found.world)
    for step in found.path:
        (state,) = [
            to for each, to in successors(found.world, state, PLANTED[what]) if each == step
        ]
    broken = {*breaches(found.world, state), *left(found.world, state)}
    assert found.breach in broken or found.breach.startswith(NOTHING_ENDS)
    assert len(found.path) == len(found.levels) - 1  # no state nearer by is broken


def test_a_counterexample_can_be_read() -> None:
    found = search(PLANTED["the first gradients are answered at once"])
    assert str(found).splitlines() == [
        "a pass ends while a worker is at it, after 9 steps:",
        "  1. worker 0: open_context",
        "  2. worker 0: call (to worker 1)",
        "  3. worker 1: arrives (pair 0)",
        "  4. worker 1: begin (roots lead to pairs [0])",
        "  5. worker 1: gradients_leave (pass 0, pair 0)",
        "  6. worker 0: gradients_arrive (pass 0, pair 0)",
        "  7. worker 0: gradients_join (pass 0, pair 0)",
        "  8. worker 1: answer_arrives (pass 0, pair 0)",
        "  9. worker 1: part_ends (pass 0)",
    ]
