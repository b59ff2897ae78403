"""What ``squall serve`` shows of a campaign, in words and as a curve."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from squall.model.coverage.history import History
from squall.sim.campaigns.address import Address, address_of
from squall.sim.campaigns.coverage import history_in
from squall.sim.campaigns.store_reader import open_store

if TYPE_CHECKING:
    from squall.sim.campaigns.status import Status

#: real seconds after which a browser asks again
REFRESH_S = 5
_WIDTH, _HEIGHT, _TOP = 960, 120, 22


class Curve(NamedTuple):
    """Paths of an SVG picture of so many units. ``most``: what its top stands for; ``first`` and
    ``last``: the times at its sides, in seconds since 1970."""

    line: str
    area: str
    most: float
    first: float
    last: float
    width: int = _WIDTH
    height: int = _HEIGHT


class CampaignView:
    """A store that others write into meanwhile. For any thread, one at a time.

    Raises CampaignStoreError if there is none, and each method if it cannot be read.
    """

    def __init__(self, store: Address | Path) -> None:
        self.address = address_of(store)
        self._lock = Lock()
        open_store(self.address).close()

    @property
    def name(self) -> str:
        return str(self.address)

    def status(self) -> Status:
        from squall.sim.campaigns.status import status_of

        with self._lock:
            store = open_store(self.address)
            try:
                return status_of(store)
            finally:
                store.close()

    def history(self, part: str) -> History | None:
        """What a part has shown of behaviour. None if there is no such part, or nothing is known."""
        with self._lock:
            store = open_store(self.address)
            try:
                return history_in(store, part)
            finally:
                store.close()


def speed_curve(speed: Sequence[tuple[float, float]]) -> Curve | None:
    """Scenarios a second over time. None of fewer than two times."""
    if len(speed) < 2:
        return None
    (first, _), (last, _) = speed[0], speed[-1]
    most = max(rate for _, rate in speed)
    points = [
        (
            _WIDTH * (at - first) / max(last - first, 1e-9),
            _HEIGHT - (_HEIGHT - _TOP) * rate / max(most, 1e-9),
        )
        for at, rate in speed
    ]
    line = "M" + " L".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return Curve(line, f"{line} L{_WIDTH},{_HEIGHT} L0,{_HEIGHT} Z", most, first, last)


def words_of(status: Status) -> str:
    """The state of a campaign in one line."""
    judged, scenarios = f"{status.judged:,}", f"{status.scenarios:,}"
    told = [f"{judged} of {scenarios} scenarios"]
    silent = len(status.silent_canaries)
    if silent:
        told.append(f"{silent:,} planted {'bug' if silent == 1 else 'bugs'} not noticed")
    if status.kinds:
        kinds = "kind" if len(status.kinds) == 1 else "kinds"
        told.append(f"{status.failed:,} failed, of {len(status.kinds):,} {kinds}")
    elif not silent:
        told.append("every property holds" if status.judged else "nothing was judged yet")
    left = status.scenarios - status.judged
    if left and status.at_work and status.per_second:
        told.append(
            f"{status.per_second:,.0f} a second, {_duration(left / status.per_second)} left"
        )
    elif left:
        told.append("nobody is at work")
    return ", ".join(told)


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return "less than a minute"
    hours, minutes = divmod(minutes, 60)
    if not hours:
        return f"{minutes} min"
    return f"{hours:,} h {minutes} min" if hours < 48 else f"{hours / 24:,.0f} days"
