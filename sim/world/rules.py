"""Rules of the network: what is to become of a message.

A rule is any callable that looks at a message as it is sent and gives a verdict: None lets it
pass, and the first rule that does not pass decides. :func:`drop` and its like make rules of the
usual kinds:

    with network.rule(drop(src=1, dst=0, kind=MessageType.BACKWARD_AUTOGRAD_REQ)):
        ...                                                 # healed on exit
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Protocol, TypedDict, Unpack

from squall.real.rpc.message_type import MessageType
from squall.sim.world.delivery import Delivery, Link

if TYPE_CHECKING:
    from squall.real.rpc.message import Message


@dataclass(frozen=True, kw_only=True)
class Ruling:
    """What becomes of a message. ``kind`` and ``item`` (of a fault plan), and the number ``nth``
    of the message on its link, are for the trace."""

    kind: str = "fault"
    item: str = ""
    nth: int = 0

    @property
    def detail(self) -> object:
        """What the trace says besides."""
        return None


@dataclass(frozen=True)
class Delay(Ruling):
    """It arrives ``seconds`` of virtual time later than it would have."""

    seconds: float
    kind: str = field(default="delay", kw_only=True)

    @property
    def detail(self) -> object:
        return self.seconds


@dataclass(frozen=True)
class Drop(Ruling):
    """It is lost, which its sender does not learn. ``reason`` is for the trace."""

    reason: str
    kind: str = field(default="drop", kw_only=True)

    @property
    def detail(self) -> object:
        return self.reason


@dataclass(frozen=True)
class Fail(Ruling):
    """It is not sent, and its sender is told ``error`` at once."""

    error: str
    kind: str = field(default="fail", kw_only=True)

    @property
    def detail(self) -> object:
        return self.error


@dataclass(frozen=True)
class Reset(Ruling):
    """It is lost, and the connection of its two workers breaks when ``part`` of the time is over
    that it would have taken: what is under way between them then is lost, too."""

    part: float
    kind: str = field(default="reset", kw_only=True)

    @property
    def detail(self) -> object:
        return self.part


@dataclass(frozen=True)
class Duplicate(Ruling):
    """It arrives, and copies of it, each so much later than the original."""

    after_s: tuple[float, ...]
    kind: str = field(default="duplicate", kw_only=True)

    @property
    def detail(self) -> object:
        return self.after_s


class Holder(Protocol):
    """Whoever holds messages on their way; see :class:`squall.sim.world.held_messages.Held`."""

    def add(self, delivery: Delivery, arrives_at_s: float) -> None:
        """Keep a message that would have arrived then."""

    def holds(self, link: Link) -> bool:
        """Whether something of that link is held."""

    def wait_behind(self, link: Link, then: Callable[[], object]) -> None:
        """Do that once nothing is held of that link."""


@dataclass(frozen=True)
class Hold(Ruling):
    """It waits on its way until whoever holds it lets it go."""

    held: Holder
    kind: str = field(default="hold", kw_only=True)


@dataclass(frozen=True)
class Corrupt(Ruling):
    """``flips`` of its bytes, drawn from ``stream``, arrive changed."""

    flips: int
    stream: Random
    kind: str = field(default="corrupt", kw_only=True)

    @property
    def detail(self) -> object:
        return self.flips


Rule = Callable[["Message"], Ruling | None]
#: a type of message or several, each also by its name
Types = MessageType | str | Iterable[MessageType | str] | None


def _types(kind: Types) -> frozenset[MessageType] | None:
    """Raises ValueError for a name that no type of message has."""
    if kind is None:
        return None
    each = [kind] if isinstance(kind, MessageType | str) else list(kind)
    unknown = [name for name in each if isinstance(name, str) and name not in _BY_NAME]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no message type; there are {', '.join(_BY_NAME)}")
    return frozenset(_BY_NAME[type] if isinstance(type, str) else type for type in each)


_BY_NAME = dict(MessageType.__members__)


class Which(TypedDict, total=False):
    """Which messages are meant; nothing said: all of them."""

    #: a type or several, or their names
    kind: Types
    src: int | None
    dst: int | None
    #: which of those that fit in all else, from 1
    nth: int | Iterable[int] | None
    #: looks at the message
    where: Callable[[Message], bool] | None


class Select:
    """Says of messages, in the order in which they are sent, whether they are meant.

    Which: see :class:`Which`. Raises ValueError for a name that no type of message has, for a
    number of a message below 1, which would select nothing, and for a negative worker.
    """

    def __init__(
        self,
        *,
        kind: Types = None,
        src: int | None = None,
        dst: int | None = None,
        nth: int | Iterable[int] | None = None,
        where: Callable[[Message], bool] | None = None,
    ) -> None:
        self._types = _types(kind)
        self._src, self._dst, self._where = src, dst, where
        self._nth = None if nth is None else frozenset({nth} if isinstance(nth, int) else nth)
        self._count = 0
        if self._nth is not None and (not self._nth or min(self._nth) < 1):
            raise ValueError(f"nth: {nth!r} selects nothing: messages are counted from 1")
        for name, worker in (("src", src), ("dst", dst)):
            if worker is not None and worker < 0:
                raise ValueError(f"{name}: {worker} is no worker: expected 0 or more")

    def __call__(self, message: Message) -> bool:
        if (
            (self._types is not None and message.type not in self._types)
            or (self._src is not None and message.src != self._src)
            or (self._dst is not None and message.dst != self._dst)
            or (self._where is not None and not self._where(message))
        ):
            return False
        self._count += 1
        return self._nth is None or self._count in self._nth


def judge(select: Select, verdict: Ruling) -> Rule:
    """The rule that gives ``verdict`` on what ``select`` selects."""
    return lambda message: verdict if select(message) else None


def drop(**which: Unpack[Which]) -> Rule:
    """A rule: such messages are lost."""
    return judge(Select(**which), Drop("a rule"))


def delay(seconds: float, **which: Unpack[Which]) -> Rule:
    """A rule: such messages arrive ``seconds`` later. Raises ValueError unless that is finite and
    not negative."""
    _later("seconds", seconds)
    return judge(Select(**which), Delay(seconds))


def duplicate(*after_s: float, **which: Unpack[Which]) -> Rule:
    """A rule: copies of such messages arrive so many seconds after them; none said: at once. Raises
    ValueError unless all are finite and not negative."""
    for seconds in after_s:
        _later("after_s", seconds)
    return judge(Select(**which), Duplicate(after_s or (0.0,)))


def _later(name: str, seconds: float) -> None:
    if not 0 <= seconds < math.inf:
        raise ValueError(f"{name}: {seconds} is wrong: expected a finite number, 0 or more")


def fail(error: str = "connection reset by peer", **which: Unpack[Which]) -> Rule:
    """A rule: sending such messages raises ``ConnectionError(error)``."""
    return judge(Select(**which), Fail(error))
