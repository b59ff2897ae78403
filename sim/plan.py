"""A fault plan as plain data: what is to go wrong in a run, next to the program it goes wrong in.

A plan is a list of items, each of a ``kind``, each removable without touching the others: that is
what shrinking does. Items are grouped by what they hit: messages, links, partitions of the
network, workers, and what is inside a worker; ``schedule`` says in which order things that could
happen at one instant do.

Times are seconds of virtual time, workers are ranks. With ``begin`` "ready" both times and counts
start when every worker has joined its group; with "launch" when the run starts. At ``heal_s``
the faults end: from then on messages pass, links are as they were, paused workers go on. What
has happened stays: a message that was dropped, a worker that crashed and has no restart.

How an item decides about a message:

- ``nth`` counts, from 1, the messages that the item's ``types``, ``src``, ``dst`` and
  ``direction`` select. With one type and one link it means the same whatever else the plan says.
- ``probability`` draws from a stream named by the item and the message: ``seed / fault ID / link
  0->2 / BACKWARD_AUTOGRAD_REQ / 5``, the sixth message of that type on that link. Taking away
  another item, or a message of another link or type, leaves the draw as it was. ``id`` is that
  name's ID and no two items share one.

A plan without probabilities is concrete: it names each message it hits, and replays although
whatever generated it has changed. :func:`sim.faults_log.concrete` makes one of what a run did.
sim/plan_file.py reads and writes plans as JSON, and checks them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Discriminator

VERSION = 1

Direction = Literal["any", "request", "response"]
#: what becomes of a message that a link or a partition does not let through: it is lost, it waits
#: until the way is open, or its sender is told at once
Cut = Literal["drop", "hold", "fail"]
Order = Literal["fifo", "random", "pct"]

_STRICT = ConfigDict(extra="forbid", strict=True)


# -- which messages -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Some messages. Nothing given: all of them.

    ``types``: names of message types (``BACKWARD_AUTOGRAD_REQ``). ``from_s``, ``until_s``: sent
    at or after, and before. ``nth``: see the head of this module.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    types: tuple[str, ...] = ()
    src: int | None = None
    dst: int | None = None
    direction: Direction = "any"
    nth: tuple[int, ...] = ()
    from_s: float = 0.0
    until_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFault(Selector):
    """Something that happens to each selected message with ``probability``."""

    probability: float = 1.0
    id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay(MessageFault):
    """It arrives ``seconds`` later, and up to ``spread_s`` more, drawn."""

    kind: Literal["delay"] = "delay"
    seconds: float
    spread_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop(MessageFault):
    """It is lost; its sender does not learn of it."""

    kind: Literal["drop"] = "drop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate(MessageFault):
    """It arrives, and a copy of it ``after_s[i]`` later than the original, each."""

    kind: Literal["duplicate"] = "duplicate"
    after_s: tuple[float, ...] = (0.0,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold(MessageFault):
    """It waits on its way until ``until`` was handled: the nth such message from the start.

    After ``at_most_s`` it is let go in any case.
    """

    kind: Literal["hold"] = "hold"
    until: Selector
    at_most_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrupt(MessageFault):
    """``flips`` of its bytes arrive changed, which the receiver's checksum finds."""

    kind: Literal["corrupt"] = "corrupt"
    flips: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail(MessageFault):
    """It is not sent, and its sender gets ``error`` at once."""

    kind: Literal["fail"] = "fail"
    error: str = "connection reset by peer"


# -- links ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFault:
    """Something about the links from ``src`` to ``dst`` (None: any), for a while."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    src: int | None = None
    dst: int | None = None
    from_s: float = 0.0
    until_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencySpike(LinkFault):
    """Latencies are ``factor`` times what they were, and ``extra_s`` more."""

    kind: Literal["latency_spike"] = "latency_spike"
    factor: float = 1.0
    extra_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth(LinkFault):
    """The link carries that many bytes a second, one message after the other."""

    kind: Literal["bandwidth"] = "bandwidth"
    bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss(LinkFault):
    """Each message is lost with ``probability``; one way, unless there is an item for the other."""

    kind: Literal["loss"] = "loss"
    probability: float
    id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Flapping(LinkFault):
    """Of every ``period_s`` the link is down during the first ``down_s``."""

    kind: Literal["flapping"] = "flapping"
    period_s: float
    down_s: float
    cut: Cut = "drop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fifo(LinkFault):
    """What is sent first arrives first."""

    kind: Literal["fifo"] = "fifo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Workers of different ``groups`` do not reach each other; one in no group reaches all.

    ``one_way``: only what the first group sends to the others is cut. A message is judged when
    it is sent: what is under way at ``from_s`` arrives. ``until_s`` None: until ``heal_s``.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    kind: Literal["partition"] = "partition"
    groups: tuple[tuple[int, ...], ...]
    one_way: bool = False
    cut: Cut = "drop"
    from_s: float = 0.0
    until_s: float | None = None


# -- workers --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The ``nth`` event (from 1) called ``event`` (see real/tracing.py) on ``worker``, or on any.

    What is to happen then does as soon as the task that reported the event waits for something.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    event: str
    worker: int | None = None
    nth: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFault:
    """Something that happens to ``worker``, ``at_s`` after the start, or after ``moment``."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    worker: int
    at_s: float = 0.0
    moment: Moment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash(WorkerFault):
    """Its process ends. Its connections are reset, which its peers see at once, or, ``silent``,
    its peers see nothing and run into timeouts.

    ``restart_after_s``: so much later there is a new process of the same rank, with empty state,
    which joins the group again; None: it stays away.
    """

    kind: Literal["crash"] = "crash"
    silent: bool = False
    restart_after_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(WorkerFault):
    """Nothing of it runs for ``for_s`` (SIGSTOP, a long collection): messages queue up, timers
    that come due meanwhile fire afterwards."""

    kind: Literal["pause"] = "pause"
    for_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowCpu(WorkerFault):
    """Each step of its tasks, which otherwise takes no time, takes ``factor`` times 10 us for
    ``for_s`` (None: until ``heal_s``)."""

    kind: Literal["slow_cpu"] = "slow_cpu"
    factor: float
    for_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowStart:
    """Its process starts ``delay_s`` after those of the others."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    kind: Literal["slow_start"] = "slow_start"
    worker: int
    delay_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Shutdown(WorkerFault):
    """It calls ``rpc.shutdown``, whatever else it is doing; not graceful: peers are not waited for."""

    kind: Literal["shutdown"] = "shutdown"
    graceful: bool = False


# -- inside a worker ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSize:
    """Its agent has ``threads`` threads (None as worker: every agent)."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    kind: Literal["pool_size"] = "pool_size"
    worker: int | None = None
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """The ``nth`` node (from 1) that its engine evaluates cannot allocate its memory."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    kind: Literal["allocation"] = "allocation"
    worker: int
    nth: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Raise:
    """The ``nth`` time (from 1) that the worker comes to ``where``, an exception is raised there:
    as a user function starts, in a hook of a node or leaf, in a node's backward, while a value is
    pickled or unpickled for the wire."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    kind: Literal["raise"] = "raise"
    worker: int
    where: Literal["udf", "hook", "backward", "pickle", "unpickle"]
    nth: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbage(WorkerFault):
    """Cyclic garbage is collected then. One heap serves all workers here, so it is all of it;
    ``worker`` is the one in whose name."""

    kind: Literal["garbage"] = "garbage"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSkew:
    """Its clock shows ``offset_s`` more than the others' and runs ``rate`` times as fast, so that
    its timeouts come earlier (rate above 1) or later."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    kind: Literal["clock_skew"] = "clock_skew"
    worker: int
    offset_s: float = 0.0
    rate: float = 1.0


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

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

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

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

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
