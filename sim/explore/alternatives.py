"""First come, first served, but for few names, with what else could have gone first."""

from __future__ import annotations

from collections.abc import Sequence

from squall.sim.world.controlled_time import Entry, Grain
from squall.sim.world.scripted_order import ListedOrder


class PassedOver(ListedOrder):
    """Notes which names could have gone first and did not."""

    def __init__(self, names: Sequence[int], *, grain: Grain, ordered: bool) -> None:
        super().__init__(names, grain=grain, ordered=ordered)
        self.passed_over: dict[int, None] = {}

    def choose(self, enabled: Sequence[Entry]) -> Entry:
        chosen = super().choose(enabled)
        if len(enabled) > 1:
            for entry in enabled:
                if entry is not chosen:
                    self.passed_over[entry.name] = None
        return chosen
