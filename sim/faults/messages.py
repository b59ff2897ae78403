"""Faults that hit single messages: which messages an item means, and what becomes of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from pydantic import ConfigDict

from squall.model.events.names import ordinal, type_named
from squall.real.rpc.message_type import RESPONSE_FLAG, MessageType
from squall.sim.faults.fault import Effect, Fault, Group, Injection, check_made
from squall.sim.faults.limits import (
    STRICT,
    Count,
    Direction,
    Id,
    MessageTypeName,
    Probability,
    Problem,
    Rank,
    Seconds,
    window_problem,
)
from squall.sim.faults.on_stock import NAMED
from squall.sim.faults.words import ends, listed, window
from squall.sim.world.rules import Ruling
from squall.sim.world.streams import NamedStream
from squall.sim.world.trace import Event

if TYPE_CHECKING:
    from squall.real.rpc.message import Message


_NOUNS: dict[Direction, str] = {"any": "message", "request": "request", "response": "reply"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Some messages. Nothing given: all of them.

    ``types``: names of message types (``BACKWARD_AUTOGRAD_REQ``). ``from_s``, ``until_s``: sent
    at or after, and before. ``nth``: see sim/faults/plan.py.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    types: tuple[MessageTypeName, ...] = ()
    src: Rank | None = None
    dst: Rank | None = None
    direction: Direction = "any"
    nth: tuple[Count, ...] = ()
    from_s: Seconds = 0.0
    until_s: Seconds | None = None

    def __post_init__(self) -> None:
        check_made(self)

    def which(self, names: Mapping[int, str]) -> str:
        """The messages, in words. ``names``: of workers."""
        noun = " or ".join(map(type_named, self.types)) or _NOUNS[self.direction]
        which = f"the {listed([ordinal(n) for n in self.nth])}" if self.nth else "every"
        sent = window(self.from_s, self.until_s)
        sent = f" sent{sent}" if sent else ""
        return f"{which} {noun}{ends(self.src, self.dst, names)}{sent}"

    def problem(self) -> Problem | None:
        """What is wrong with it, if anything."""
        return window_problem(self.from_s, self.until_s)


class Hit(NamedTuple):
    """A message that an item means: ``nth`` of its type on its link. ``stream`` is named by the
    item and the message; ``item`` is the item's place in the plan."""

    message: Message
    nth: int
    stream: NamedStream
    item: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFault(Selector, Fault):
    """Something that happens to each selected message with ``probability``."""

    group: ClassVar[Group] = "messages"

    probability: Probability = 1.0
    id: Id = 0

    def told(self, names: Mapping[int, str]) -> str:
        chance = f", with probability {self.probability:g}" if self.probability < 1 else ""
        return self.done_to(self.which(names)) + chance

    def done_to(self, which: str) -> str:
        """What is done to ``which`` messages, in words."""
        raise NotImplementedError

    def verdict(self, hit: Hit) -> Ruling | None:
        """What becomes of a message."""
        raise NotImplementedError

    @property
    def draws(self) -> bool:
        return 0 < self.probability < 1

    def problem(self) -> Problem | None:
        return Selector.problem(self)

    def concrete(self, events: list[Event]) -> Iterator[Fault]:
        for event in events:
            yield replace(self, **one_message(event), **_CERTAIN, **self.seen(event))

    @property
    def on_stock_instead(self) -> str:
        """Which more messages settings by type and sender would hit; "" if no others."""
        given = {
            "not only those to one worker": self.dst is not None,
            "not only some of them by number": bool(self.nth),
            "all, without a draw": self.draws,
            "at any time": self.from_s > 0 or self.until_s is not None,
        }
        return ", ".join(text for text, is_so in given.items() if is_so)

    @property
    def types_on_stock(self) -> tuple[str, ...]:
        """The types that settings have to name to hit all that is selected; () if they cannot."""
        types = [type for type in self.types if self._is_meant(MessageType[type])]
        return tuple(types) if NAMED.issuperset(types) else ()

    def _is_meant(self, type: MessageType) -> bool:
        return {"any": True, "request": type.is_request, "response": type.is_response}[
            self.direction
        ]

    def seen(self, event: Event) -> dict[str, Any]:
        """What else of the item is to change so that it does what it did, without a draw."""
        return {}

    def at_work(self, name: str, injection: Injection) -> Effect[Any]:
        return MessageEffect(self, name, injection)


_CERTAIN: dict[str, Any] = {
    name: MessageFault.__dataclass_fields__[name].default
    for name in ("direction", "from_s", "until_s", "probability")
}


def one_message(event: Event) -> dict[str, Any]:
    """What selects the one message that an event tells of."""
    return {
        "types": (event["type"],),
        "src": event["src"],
        "dst": event["dst"],
        "nth": (event["nth"],),
    }


class Counts:
    """How many messages of each type each link has carried."""

    def __init__(self) -> None:
        self._counts: dict[tuple[int, int, int], int] = {}

    def next(self, message: Message) -> int:
        """The number of this message on its link among those of its type, from 1."""
        key = (message.src, message.dst, int(message.type))
        count = self._counts[key] = self._counts.get(key, 0) + 1
        return count


class Matcher:
    """Whether a selector means a message: counts what it sees."""

    def __init__(self, selector: Selector) -> None:
        self._types = frozenset(selector.types)
        self._src, self._dst = selector.src, selector.dst
        self._direction = selector.direction
        self._nth = frozenset(selector.nth)
        self._from_s, self._until_s = selector.from_s, selector.until_s
        self._count = 0

    def __call__(self, message: Message, time_s: float) -> bool:
        if (
            (self._src is not None and message.src != self._src)
            or (self._dst is not None and message.dst != self._dst)
            or (self._types and message.type.name not in self._types)
        ):
            return False
        if self._direction != "any":
            is_response = bool(message.type & RESPONSE_FLAG)
            if is_response != (self._direction == "response"):
                return False
        self._count += 1
        if self._nth and self._count not in self._nth:
            return False
        return time_s >= self._from_s and (self._until_s is None or time_s < self._until_s)


M = TypeVar("M", bound=MessageFault)


class MessageEffect(Effect[M]):
    """An item about messages at work in one run."""

    def __init__(self, item: M, name: str, injection: Injection) -> None:
        super().__init__(item, name, injection)
        self.matches = Matcher(item)

    def verdict(self, message: Message, nth: int) -> Ruling | None:
        """What becomes of a message that :attr:`matches`; None: nothing, it was not drawn."""
        item = self.item
        stream = self.injection.stream(item.id, message, nth)
        if item.probability < 1 and stream.random() >= item.probability:
            return None
        return self.hit(Hit(message, nth, stream, self.name))

    def hit(self, hit: Hit) -> Ruling | None:
        """What becomes of a message that is hit."""
        return self.item.verdict(hit)
