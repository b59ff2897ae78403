"""The items of a fault plan, by what they hit; see sim/faults/plan.py for what they have in common.

Times are seconds of virtual time, workers are ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import ConfigDict

Direction = Literal["any", "request", "response"]
#: what becomes of a message that a link or a partition does not let through: it is lost, it waits
#: until the way is open, or its sender is told at once
Cut = Literal["drop", "hold", "fail"]

STRICT = ConfigDict(extra="forbid", strict=True)


# -- which messages -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Some messages. Nothing given: all of them.

    ``types``: names of message types (``BACKWARD_AUTOGRAD_REQ``). ``from_s``, ``until_s``: sent
    at or after, and before. ``nth``: see sim/faults/plan.py.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

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

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

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

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

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

    Of a message, ``message_delivered`` is on its destination, ``message_sent`` and
    ``message_dropped`` on its source. What is to happen then does as soon as the task that reported the event waits for something.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    event: str
    worker: int | None = None
    nth: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFault:
    """Something that happens to ``worker``, ``at_s`` after the start, or after ``moment``."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

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

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

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

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    kind: Literal["pool_size"] = "pool_size"
    worker: int | None = None
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """The ``nth`` node (from 1) that its engine evaluates cannot allocate its memory."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    kind: Literal["allocation"] = "allocation"
    worker: int
    nth: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Raise:
    """The ``nth`` time (from 1) that the worker comes to ``where``, an exception is raised there:
    as a user function starts, in a hook of a node or leaf, in a node's backward, while a value is
    pickled or unpickled for the wire."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

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

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    kind: Literal["clock_skew"] = "clock_skew"
    worker: int
    offset_s: float = 0.0
    rate: float = 1.0
