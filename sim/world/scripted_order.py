"""An order that somebody has chosen before, as the names of what was chosen."""

from __future__ import annotations

from collections.abc import Sequence

from squall.sim.world.controlled_time import Dependence, Entry, Footprint, Grain


class ListedOrder:
    """Chooses what comes first in a list of names, and first come, first served, where nothing that
    could go next is in it. A list without some of its names thus still says something."""

    dependence: Dependence = "worker"
    crowded = True

    def __init__(self, names: Sequence[int], *, grain: Grain, ordered: bool) -> None:
        self.grain: Grain = grain
        self.ordered = ordered
        self._places = {name: place for place, name in enumerate(names)}

    def choose(self, enabled: Sequence[Entry]) -> Entry:
        places = self._places
        last = len(places)
        return min(enabled, key=lambda entry: (places.get(entry.name, last), entry.number))

    def done(self, name: int, entry: Entry | None, footprint: Footprint) -> None:
        """There is nothing to note."""
