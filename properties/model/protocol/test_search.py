"""How many states the protocol has, and that nothing is broken in any of them."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from math import factorial

import numpy as np
import pytest

from squall.properties.model.protocol.arrays import successors
from squall.properties.model.protocol.explore import explore
from squall.properties.model.protocol.explore import folded as one_folded
from squall.properties.model.protocol.layout import Frontier, Layout, folded
from squall.properties.model.protocol.search import search
from squall.properties.model.protocol.state import Stage, World, initial
from squall.properties.support.paths import DOCS

#: by workers, references, forks of each, faults, fetches: states, steps between them, and levels: the
#: length of the longest way that has no shorter one, plus 1
COUNTS = {
    (2, 1, 1, 0, 0): (25, 30, 7),
    (2, 1, 2, 0, 0): (241, 450, 14),
    (2, 1, 3, 0, 0): (3_989, 10_738, 21),
    (2, 1, 2, 1, 1): (4_092, 12_551, 18),
    (2, 1, 2, 2, 1): (13_757, 51_444, 19),
    (2, 1, 3, 1, 0): (36_104, 121_423, 23),
    (2, 1, 3, 2, 0): (177_747, 734_043, 24),
    (3, 1, 2, 0, 0): (369, 714, 14),
    (3, 1, 2, 1, 0): (2_262, 5_522, 16),
    (3, 1, 2, 2, 1): (25_220, 96_276, 19),
    (3, 1, 3, 0, 0): (10_897, 30_131, 21),
    (3, 1, 3, 1, 0): (107_666, 369_929, 23),
    (3, 1, 3, 2, 0): (567_879, 2_385_918, 24),
    (2, 1, 4, 0, 0): (98_681, 350_646, 28),
    (3, 1, 3, 1, 1): (411_141, 1_793_311, 25),
    (2, 2, 1, 0, 0): (625, 1_430, 13),
    (2, 2, 1, 2, 1): (19_233, 67_478, 18),
    (2, 2, 2, 0, 0): (58_081, 216_386, 27),
    (3, 2, 1, 2, 1): (50_479, 180_439, 18),
    (3, 2, 2, 0, 0): (392_103, 1_505_857, 27),
}


def test_the_page_has_these_counts() -> None:
    page = (DOCS / "protocol.md").read_text(encoding="utf-8")
    for bounds, (states, steps, levels) in COUNTS.items():
        cells = [*map(str, bounds), f"{states:,}", f"{steps:,}", str(levels - 1)]
        assert f"| {' | '.join(cells)} |" in page


@pytest.mark.sampled(5)
@pytest.mark.parametrize("bounds", COUNTS, ids=str)
def test_nothing_is_broken_in_any_state(bounds: tuple[int, int, int, int, int]) -> None:
    found = search(World(*bounds))
    assert found.breach is None, f"{found}"
    assert (found.states, found.steps, len(found.levels)) == COUNTS[bounds]


@pytest.mark.parametrize("bounds", [each for each in COUNTS if COUNTS[each][0] < 4_000], ids=str)
def test_one_state_at_a_time_comes_to_the_same(bounds: tuple[int, int, int, int, int]) -> None:
    one, all_at_once = explore(World(*bounds)), search(World(*bounds))
    assert (one.levels, one.steps, one.breach) == (all_at_once.levels, all_at_once.steps, None)


@pytest.mark.parametrize("world", [World(2, 2, 1), World(2, 2, 2), World(3, 2, 2)], ids=str)
def test_two_references_are_as_many_as_burnside_says(world: World) -> None:
    """References have nothing in common but workers and faults. So without faults the states of two
    are the pairs of those of one, and folding leaves as many as there are orbits under the renamings
    of workers and of references: the mean, over these, of the states that each leaves as they are."""
    using = _by_workers(world._replace(references=1))
    renamings = list(permutations(range(world.workers)))

    def unchanged(renaming: tuple[int, ...]) -> int:
        fixed = sum(renaming[worker] == worker for worker in range(world.workers))
        return sum(
            count * factorial(fixed) // factorial(fixed - k)
            for k, count in using.items()
            if k <= fixed
        )

    total = sum(
        unchanged(each) ** 2 + unchanged(tuple(each[worker] for worker in each))
        for each in renamings
    )
    assert search(world).states == total // (2 * len(renamings))


def _by_workers(world: World) -> Counter[int]:
    """How many folded states of one reference name so many workers."""
    layout = Layout(world)
    level = np.array([layout.number(one_folded(initial(world)))], np.uint64)
    seen = level
    while len(level):
        reached = [words for _, _, words in successors(Frontier(layout, level))]
        level = (
            np.setdiff1d(folded(layout, np.concatenate(reached)), seen) if reached else level[:0]
        )
        seen = np.union1d(seen, level)
    using: Counter[int] = Counter()
    for number in seen:
        state = layout.state(int(number))
        workers = {rref.owner for rref in state.references} - {-1}
        workers |= {fork.at for rref in state.references for fork in rref.forks}
        assert all(f.stage is not Stage.UNUSED for rref in state.references for f in rref.forks)
        using[len(workers)] += 1
    return using


def test_a_search_can_be_bounded_and_says_so() -> None:
    found = search(World(3, 1, 3, 1, 0), limit=10_000)
    assert not found.exhausted
    assert found.states <= 10_000
