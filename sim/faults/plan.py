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

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Discriminator

from squall.sim.faults.items import (
    STRICT,
    Allocation,
    Bandwidth,
    ClockSkew,
    Corrupt,
    Crash,
    Cut,
    Delay,
    Direction,
    Drop,
    Duplicate,
    Fail,
    Fifo,
    Flapping,
    Garbage,
    Hold,
    LatencySpike,
    LinkFault,
    Loss,
    MessageFault,
    Moment,
    Partition,
    Pause,
    PoolSize,
    Raise,
    Selector,
    Shutdown,
    SlowCpu,
    SlowStart,
    WorkerFault,
)

__all__ = [
    "GROUPS",
    "KINDS",
    "NO_FAULTS",
    "VERSION",
    "Allocation",
    "AnyFault",
    "AnyInnerFault",
    "AnyLinkFault",
    "AnyMessageFault",
    "AnyWorkerFault",
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
    "Schedule",
    "Selector",
    "Shutdown",
    "SlowCpu",
    "SlowStart",
    "WorkerFault",
    "draws",
]

VERSION = 1

Order = Literal["fifo", "random", "pct"]


# -- the order of things ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """What happens first of all that could happen at one instant.

    fifo: what was ready first. random: any, and a task may be interrupted wherever it takes a
    lock, starts a task or looks at an event. pct: tasks and messages get random priorities, the
    highest goes first, and at ``depth`` - 1 points among the first ``steps`` steps the running
    one falls below all others (Burckhardt et al., A Randomized Scheduler with Probabilistic
    Guarantees of Finding Bugs): an error that needs d ordering constraints is found with
    probability 1 / (n * steps ** (d - 1)) or more.

    With ``timeless``, as always in the order pct, messages take no time but what faults add: then
    nothing but the order decides which of two arrives first.

    ``late`` and ``yields`` are deviations from fifo, as a run can record them: the wake-up of
    that number (from 0) goes after all others of its instant, the later the larger the second
    number; at the scheduling point of that number the task lets others go first.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    order: Order = "fifo"
    depth: int = 3
    steps: int = 1_000
    late: tuple[tuple[int, float], ...] = ()
    yields: tuple[int, ...] = ()
    timeless: bool = False


AnyMessageFault = Delay | Drop | Duplicate | Hold | Corrupt | Fail
AnyLinkFault = LatencySpike | Bandwidth | Loss | Flapping | Fifo
AnyWorkerFault = Crash | Pause | SlowCpu | SlowStart | Shutdown
AnyInnerFault = PoolSize | Allocation | Raise | Garbage | ClockSkew
_BY_KIND = Discriminator("kind")
AnyFault = AnyMessageFault | AnyLinkFault | Partition | AnyWorkerFault | AnyInnerFault


def _by_kind(*classes: type[Any]) -> dict[str, type[Any]]:
    return {item.__dataclass_fields__["kind"].default: item for item in classes}


#: the kinds of a group's items, by their names
GROUPS: dict[str, dict[str, type[Any]]] = {
    "messages": _by_kind(Delay, Drop, Duplicate, Hold, Corrupt, Fail),
    "links": _by_kind(LatencySpike, Bandwidth, Loss, Flapping, Fifo),
    "partitions": _by_kind(Partition),
    "workers": _by_kind(Crash, Pause, SlowCpu, SlowStart, Shutdown),
    "inner": _by_kind(PoolSize, Allocation, Raise, Garbage, ClockSkew),
}
#: what may happen in a run because of a plan, as it is counted
KINDS = (*(kind for kinds in GROUPS.values() for kind in kinds), "restart")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that is to go wrong. An empty one: nothing."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    messages: tuple[Annotated[AnyMessageFault, _BY_KIND], ...] = ()
    links: tuple[Annotated[AnyLinkFault, _BY_KIND], ...] = ()
    partitions: tuple[Partition, ...] = ()
    workers: tuple[Annotated[AnyWorkerFault, _BY_KIND], ...] = ()
    inner: tuple[Annotated[AnyInnerFault, _BY_KIND], ...] = ()
    schedule: Schedule = Schedule()
    begin: Literal["ready", "launch"] = "ready"
    heal_s: float | None = None
    version: int = VERSION

    def items(self) -> Iterator[tuple[str, int, AnyFault]]:
        """(group, position in it, item) of every item, in a fixed order."""
        for group in GROUPS:
            for at, item in enumerate(getattr(self, group)):
                yield group, at, item

    def __len__(self) -> int:
        return sum(len(getattr(self, group)) for group in GROUPS)

    def __bool__(self) -> bool:
        """Whether anything differs from a run without faults in the order fifo."""
        return len(self) > 0 or self.schedule != Schedule()

    def without(self, group: str, at: int) -> Plan:
        """The plan without one item."""
        left = list(getattr(self, group))
        del left[at]
        changed: dict[str, Any] = {group: tuple(left)}
        return replace(self, **changed)

    @property
    def is_concrete(self) -> bool:
        """Whether the plan says everything by itself, and nothing is drawn."""
        return self.schedule.order == "fifo" and not any(draws(item) for _, _, item in self.items())


NO_FAULTS = Plan()


def draws(item: AnyFault) -> bool:
    """Whether an item draws from a random stream."""
    if isinstance(item, Delay) and item.spread_s > 0:
        return True
    return isinstance(item, MessageFault | Loss) and 0 < item.probability < 1
