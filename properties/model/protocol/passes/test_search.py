"""How many states contexts and passes have, and that nothing is broken in any of them."""

from __future__ import annotations

import pytest

from squall.model.protocol import breadth
from squall.model.protocol.passes.explore import explore, system
from squall.model.protocol.passes.invariants import left
from squall.model.protocol.passes.rules import SMART
from squall.model.protocol.passes.state import World

#: by workers, contexts, messages and passes of each, faults, and whether programs are careful: states,
#: steps between them, and levels: the length of the longest way that has no shorter one, plus 1
COUNTS = {
    (2, 1, 1, 1, 0, True): (46, 55, 12),
    (2, 1, 2, 1, 0, True): (550, 763, 18),
    (2, 1, 2, 1, 1, True): (4_474, 8_394, 20),
    (2, 1, 2, 1, 2, True): (16_607, 41_268, 21),
    (2, 1, 2, 2, 0, True): (1_334, 1_804, 27),
    (2, 1, 2, 2, 1, True): (18_716, 33_753, 29),
    (2, 1, 3, 1, 0, True): (9_135, 14_813, 23),
    (3, 1, 2, 1, 0, True): (1_006, 1_522, 19),
    (3, 1, 2, 1, 1, True): (8_230, 16_844, 21),
    (3, 1, 2, 2, 1, True): (30_456, 57_461, 31),
    (3, 1, 3, 1, 0, True): (34_668, 63_512, 25),
    (2, 2, 1, 1, 0, True): (2_116, 5_023, 23),
    (2, 1, 1, 1, 1, False): (669, 1_755, 14),
    (2, 1, 1, 2, 2, False): (13_356, 45_008, 21),
    (2, 1, 2, 1, 0, False): (4_404, 11_071, 18),
    (2, 1, 2, 1, 1, False): (33_211, 109_184, 20),
    (2, 1, 2, 2, 0, False): (37_162, 101_034, 27),
}


@pytest.mark.parametrize("bounds", COUNTS, ids=str)
def test_nothing_is_broken_in_any_state(bounds: tuple[int, int, int, int, int, bool]) -> None:
    found = explore(World(*bounds))
    assert found.breach is None, f"{found}"
    assert (found.states, found.steps, len(found.levels)) == COUNTS[bounds]


def test_two_contexts_on_two_workers_are_pairs_of_states_of_one() -> None:
    """They share nothing but the workers, of which each context names its own first."""
    assert COUNTS[2, 2, 1, 1, 0, True][0] == COUNTS[2, 1, 1, 1, 0, True][0] ** 2


def test_fast_mode_waits_for_ever_where_a_message_does_not_contribute_to_the_loss() -> None:
    careless = World(2, 1, 1, 1, 0, careful=False)
    found = breadth.explore(
        system(careless)._replace(left=lambda state: left(World(careful=True), state))
    )
    assert str(found).splitlines() == [
        "a context is left, after 4 steps:",
        "  1. worker 0: open_context",
        "  2. worker 0: call (to worker 1)",
        "  3. worker 0: begin",
        "  4. worker 1: arrives (pair 0)",
    ]


@pytest.mark.parametrize(
    "world", [World(2, 1, 2, 1, 0, False), World(2, 1, 1, 1, 1, False)], ids=str
)
def test_smart_mode_never_does(world: World) -> None:
    found = breadth.explore(
        system(world, SMART)._replace(left=lambda state: left(World(careful=True), state))
    )
    assert found.breach is None, f"{found}"
