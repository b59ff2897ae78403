"""How many states contexts and passes have, and that nothing is broken in any of them."""

from __future__ import annotations

import pytest

from squall.model.protocol.passes.table import SMART
from squall.properties.model.protocol import breadth
from squall.properties.model.protocol.passes.explore import explore, system
from squall.properties.model.protocol.passes.invariants import left
from squall.properties.model.protocol.passes.world import World
from squall.properties.support.paths import DOCS

#: by workers, contexts, messages and passes of each, faults, and whether programs are careful: states,
#: steps between them, and levels: the length of the longest way that has no shorter one, plus 1
COUNTS = {
    (2, 1, 1, 1, 0, True): (47, 56, 13),
    (2, 1, 2, 1, 0, True): (570, 791, 20),
    (2, 1, 2, 1, 1, True): (5_135, 9_464, 22),
    (2, 1, 2, 1, 2, True): (19_917, 48_684, 23),
    (2, 1, 2, 2, 0, True): (1_415, 1_919, 31),
    (2, 1, 2, 2, 1, True): (24_144, 45_186, 33),
    (2, 1, 3, 1, 0, True): (9_624, 15_691, 26),
    (3, 1, 2, 1, 0, True): (1_035, 1_562, 21),
    (3, 1, 2, 1, 1, True): (9_461, 18_812, 23),
    (3, 1, 2, 1, 2, True): (38_504, 100_706, 24),
    (3, 1, 2, 2, 1, True): (37_932, 72_704, 35),
    (3, 1, 3, 1, 0, True): (35_711, 65_357, 28),
    (2, 2, 1, 1, 0, True): (2_209, 5_226, 25),
    (2, 1, 1, 1, 1, False): (709, 1_839, 15),
    (2, 1, 1, 2, 2, False): (15_518, 53_343, 23),
    (2, 1, 2, 1, 0, False): (4_902, 12_483, 20),
    (2, 1, 2, 1, 1, False): (38_057, 125_252, 22),
    (2, 1, 2, 2, 0, False): (47_999, 132_418, 31),
}


def test_the_page_has_these_counts() -> None:
    page = (DOCS / "protocol.md").read_text(encoding="utf-8")
    for bounds, (states, steps, levels) in COUNTS.items():
        cells = [*map(str, bounds[:5]), "yes" if bounds[5] else "no"]
        cells += [f"{states:,}", f"{steps:,}", str(levels - 1)]
        assert f"| {' | '.join(cells)} |" in page


@pytest.mark.sampled(1)
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
