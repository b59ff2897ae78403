"""Where leases are judged: what a driver asks of a place, and what a place tells it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from squall.sim.campaigns.lease import Judged
    from squall.sim.campaigns.plan import Lease

#: the worker of a place that has one only
HERE = "here"


class PlaceError(Exception):
    """No lease can be judged there: why, in one sentence."""


class Joined(NamedTuple):
    """A worker is there. ``jobs``: leases that it judges at the same time. ``room``: leases that it
    takes, those that wait there included. ``versions``: of what it runs (:func:`.plan.versions`)."""

    worker: str
    jobs: int
    room: int
    versions: dict[str, str]


class Heard(NamedTuple):
    """A sign of life. ``verdicts``: how many it has reached in leases that are not complete."""

    worker: str
    verdicts: int


class Done(NamedTuple):
    """A lease is judged."""

    worker: str
    judged: Judged


class Left(NamedTuple):
    """A worker is gone, with the leases that it had. ``why``: what ended it, in a few words."""

    worker: str
    why: str


Event = Joined | Heard | Done | Left


class Place(Protocol):
    """Workers that judge leases. For one thread of one driver.

    Nothing of it is started before the first :meth:`poll`. What a worker is given is judged at
    most once there; handing it out again is the driver's affair. The name of a worker that has
    left is never used again.
    """

    def start(self, worker: str, lease: Lease) -> None:
        """Give a lease to a worker that has joined. Nothing happens if it has left meanwhile."""

    def poll(self, timeout_s: float) -> Sequence[Event]:
        """What has happened, as soon as something has; a worker that is well is heard of every
        few seconds. Raises PlaceError."""

    def stop(self, worker: str) -> None:
        """End a worker, whatever it is at. It does not tell that it has left."""

    def close(self) -> None:
        """End all workers. May be called at any time, and more than once."""
