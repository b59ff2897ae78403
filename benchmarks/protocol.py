"""How fast all states of the protocols are looked at: of references whole frontiers with numpy, and one
by one; of backward passes one by one.

Every invariant is asked of every state, and every step has to lower the measure; the counts are those
of docs/protocol.md. CPU time of one core, the best of three.

    python -m benchmarks.protocol
"""

from __future__ import annotations

import time
from collections.abc import Callable

from squall.properties.model.protocol.breadth import Exploration
from squall.properties.model.protocol.explore import explore
from squall.properties.model.protocol.passes import explore as passes
from squall.properties.model.protocol.passes.world import World as PassWorld
from squall.properties.model.protocol.search import search
from squall.properties.model.protocol.state import World

#: the last takes half a minute
WORLDS = (World(3, 1, 3, 1, 1), World(2, 1, 3, 2, 1), World(3, 2, 2, 0, 0), World(3, 1, 3, 2, 1))
#: for one state at a time
SMALL = World(2, 1, 3, 0, 0)
PASSES = (PassWorld(3, 1, 2, 1, 1), PassWorld(2, 1, 2, 2, 1))


def measure(
    world: World, look: Callable[[World], Exploration] = search, *, repeats: int = 3
) -> dict[str, float]:
    """States, steps between them, and seconds of one core."""
    seconds = []
    for _ in range(repeats):
        started = time.process_time()
        found = look(world)
        seconds.append(time.process_time() - started)
        assert found.breach is None, found
    return {"states": found.states, "steps": found.steps, "seconds": min(seconds)}


def line(world: World, row: dict[str, float], how: str) -> str:
    return (
        f"{world.workers} workers, {world.references} x {world.forks} forks, {world.faults} faults, "
        f"{world.fetches} fetches, {how}: {row['states']:,} states, {row['steps']:,} steps, "
        f"{row['seconds']:.2f} s, {row['states'] / row['seconds']:,.0f} states a second"
    )


if __name__ == "__main__":
    for each in WORLDS:
        print(line(each, measure(each), "frontiers"), flush=True)
    print(line(SMALL, measure(SMALL, explore), "one by one"))
    for world in PASSES:
        started = time.process_time()
        found = passes.explore(world)
        seconds = time.process_time() - started
        print(f"{world}, one by one: {found}, {found.states / seconds:,.0f} states a second")
