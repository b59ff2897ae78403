"""The place of ``--on ray``; Ray itself is only imported by the process beside the driver."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec

from squall.sim.campaigns.hosted import Hosted
from squall.sim.campaigns.place import Place, PlaceError


def ray_place(
    address: str | None = None, jobs: int | None = None, *, memory_bytes: int | None = None
) -> Hosted:
    """As :class:`.ray_cluster.RayCluster`, in a process of its own: Ray ends a process that has lost
    it. Raises PlaceError where it is not installed."""
    if find_spec("ray") is None:
        raise PlaceError("Ray is not installed: pip install 'squall[ray]'")
    return Hosted(partial(_cluster, address, jobs, memory_bytes=memory_bytes))


def _cluster(address: str | None, jobs: int | None, *, memory_bytes: int | None) -> Place:
    from squall.sim.campaigns.ray_cluster import RayCluster

    return RayCluster(address, jobs, memory_bytes=memory_bytes)
