"""A fault plan as plain data: what is to go wrong in a run, next to the program it goes wrong in.

A plan is a list of items, each of a ``kind``, each removable without touching the others: that is
what shrinking does. Items are grouped by what they hit: messages, links, partitions of the
network, workers, and what is inside a worker; ``schedule`` says in which order things that could
happen at one instant do.

Times are seconds of virtual time, workers are ranks. With ``begin`` "ready" both times and counts
start when every worker has joined its group; with "launch" when the run starts. At ``heal_s``
the faults end: from then on messages pass, links are as they were, paused workers go on, clocks
run as fast as the others. What has happened stays: a message that was dropped, a worker that
crashed and has no restart, a clock that is ahead.

How an item decides about a message:

- ``nth`` counts, from 1, the messages that the item's ``types``, ``src``, ``dst`` and
  ``direction`` select. With one type and one link it means the same whatever else the plan says.
- ``probability`` draws from a stream named by the item and the message: ``seed / fault ID / link
  0->2 / BACKWARD_AUTOGRAD_REQ / 5``, the sixth message of that type on that link. Taking away
  another item, or a message of another link or type, leaves the draw as it was. ``id`` is that
  name's ID and no two items share one.

A plan without probabilities is concrete: it names each message it hits, and replays although
whatever generated it has changed. :func:`squall.sim.faults.concrete.concrete` makes one of what a run did.
sim/faults/file.py reads and writes plans as JSON, and checks them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, InstanceOf

from squall.model.program.strict_json import MadeError
from squall.model.program.validated import check_fields
from squall.sim.faults.fault import Fault
from squall.sim.faults.kinds.allocation import Allocation
from squall.sim.faults.kinds.bandwidth import Bandwidth
from squall.sim.faults.kinds.clock_skew import ClockSkew
from squall.sim.faults.kinds.corrupt import Corrupt
from squall.sim.faults.kinds.crash import Crash
from squall.sim.faults.kinds.delay import Delay
from squall.sim.faults.kinds.drop import Drop
from squall.sim.faults.kinds.duplicate import Duplicate
from squall.sim.faults.kinds.fail import Fail
from squall.sim.faults.kinds.fifo import Fifo
from squall.sim.faults.kinds.flapping import Flapping
from squall.sim.faults.kinds.garbage import Garbage
from squall.sim.faults.kinds.hold import Hold
from squall.sim.faults.kinds.latency_spike import LatencySpike
from squall.sim.faults.kinds.loss import Loss
from squall.sim.faults.kinds.partition import Partition
from squall.sim.faults.kinds.pause import Pause
from squall.sim.faults.kinds.pool_size import PoolSize
from squall.sim.faults.kinds.raising import Raise
from squall.sim.faults.kinds.reset import Reset
from squall.sim.faults.kinds.shutdown import Shutdown
from squall.sim.faults.kinds.slow_cpu import SlowCpu
from squall.sim.faults.kinds.slow_start import SlowStart
from squall.sim.faults.limits import Cut, Direction, Seconds
from squall.sim.faults.links import LinkFault
from squall.sim.faults.messages import MessageFault, Selector
from squall.sim.faults.moments import Moment
from squall.sim.faults.registry import GROUPS, KINDS
from squall.sim.faults.workers import WorkerFault
from squall.sim.world.schedule import FIFO, Order, Schedule

__all__ = [
    "GROUPS",
    "KINDS",
    "NO_FAULTS",
    "VERSION",
    "Allocation",
    "Bandwidth",
    "ClockSkew",
    "Corrupt",
    "Crash",
    "Cut",
    "Delay",
    "Direction",
    "Drop",
    "Duplicate",
    "Fail",
    "Fault",
    "Fifo",
    "Flapping",
    "Garbage",
    "Hold",
    "LatencySpike",
    "LinkFault",
    "Loss",
    "MessageFault",
    "Moment",
    "Order",
    "Partition",
    "Pause",
    "Plan",
    "PoolSize",
    "Raise",
    "Reset",
    "Schedule",
    "Selector",
    "Shutdown",
    "SlowCpu",
    "SlowStart",
    "WorkerFault",
]

VERSION = 1
#: what a run may have by itself
_ORDINARY = (FIFO, Schedule(order="random"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that is to go wrong. An empty one: nothing."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    # Pydantic takes items as they are: sim/faults/file.py knows their kinds.
    messages: tuple[InstanceOf[MessageFault], ...] = ()
    links: tuple[InstanceOf[LinkFault], ...] = ()
    partitions: tuple[InstanceOf[Fault], ...] = ()
    workers: tuple[InstanceOf[Fault], ...] = ()
    inner: tuple[InstanceOf[Fault], ...] = ()
    schedule: Schedule = FIFO
    begin: Literal["ready", "launch"] = "ready"
    heal_s: Seconds | None = None
    version: int = VERSION

    def __post_init__(self) -> None:
        check_fields(self)
        ids: dict[int, str] = {}
        for group, at, item in self.items():
            place = f"{group}[{at}]"
            if item.group != group:
                raise MadeError(f"Plan.{place}: {item.kind} is wrong: should be in {item.group}")
            if item.draws:
                id: int = getattr(item, "id")  # noqa: B009  # what draws has one
                other = ids.setdefault(id, place)
                if other != place:
                    raise MadeError(
                        f"Plan.{place}.id: {id} is the id of {other} too; items that draw need "
                        "ids of their own"
                    )

    def items(self) -> Iterator[tuple[str, int, Fault]]:
        """(group, position in it, item) of every item, in a fixed order."""
        for group in GROUPS:
            for at, item in enumerate(getattr(self, group)):
                yield group, at, item

    def __len__(self) -> int:
        return sum(len(getattr(self, group)) for group in GROUPS)

    def __bool__(self) -> bool:
        """Whether anything differs from a run without faults in the order fifo."""
        return len(self) > 0 or self.schedule != FIFO

    def with_items(self, items: Iterable[Fault], **changes: Any) -> Plan:
        """The plan with these items, in their order, instead of its own."""
        groups: dict[str, list[Fault]] = {group: [] for group in GROUPS}
        for item in items:
            groups[item.group].append(item)
        changes |= {group: tuple(found) for group, found in groups.items()}
        return replace(self, **changes)

    def without(self, group: str, at: int) -> Plan:
        """The plan without one item."""
        left = list(getattr(self, group))
        del left[at]
        changed: dict[str, Any] = {group: tuple(left)}
        return replace(self, **changed)

    def renumbered(self, ranks: Mapping[int, int]) -> Plan | None:
        """The plan about workers with other numbers; None if an item would mean something else."""
        found = []
        for _, _, item in self.items():
            changed = item.renumbered(ranks)
            if changed is None:
                return None
            found.append(changed)
        return self.with_items(found)

    @property
    def goes_wrong(self) -> bool:
        """Whether a program is to run under faults, and to train again when they are over; any
        order of tasks that a run may have by itself is none."""
        schedule = self.schedule
        ordinary = schedule.grain is not None or schedule in _ORDINARY
        return len(self) > 0 or not ordinary

    @property
    def is_concrete(self) -> bool:
        """Whether the plan says everything by itself, and nothing is drawn."""
        return self.schedule.order == "fifo" and not any(item.draws for _, _, item in self.items())


NO_FAULTS = Plan()
