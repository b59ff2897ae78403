"""The items of a plan that hit single messages, as they judge what is sent."""

from __future__ import annotations

from functools import partial
from typing import Any

from squall.real.rpc.message import RESPONSE_FLAG, Message
from squall.sim.faults.plan import (
    Corrupt,
    Delay,
    Drop,
    Duplicate,
    Fail,
    Hold,
    MessageFault,
    Plan,
    Selector,
)
from squall.sim.world import rules
from squall.sim.world.held import Held
from squall.sim.world.network import Network
from squall.sim.world.primitives import SimTimer
from squall.sim.world.streams import NamedStream

_Key = tuple[int, int, int]


class Counts:
    """How many messages of each type each link has carried."""

    def __init__(self) -> None:
        self._counts: dict[_Key, int] = {}

    def next(self, message: Message) -> int:
        """The number of this message on its link among those of its type, from 1."""
        key = (message.src, message.dst, int(message.type))
        count = self._counts[key] = self._counts.get(key, 0) + 1
        return count


def stream_name(id: int, message: Message, nth: int) -> bytes:
    """What names the draws of item ``id`` about a message: see :mod:`squall.sim.faults.plan`."""
    link = f"link {message.src}->{message.dst}/{message.type.name}/{nth - 1}"
    return f"fault {id}/{link}".encode()


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


class _Rule:
    def __init__(self, name: str, item: MessageFault, network: Network) -> None:
        self.name = name
        self.item: Any = item
        self.matches = Matcher(item)
        #: for an item that holds
        self.held = Held(network) if isinstance(item, Hold) else None
        self.until = Matcher(item.until) if isinstance(item, Hold) else None
        self.over = False
        #: when each message that is held is let go at the latest
        self.timers: list[SimTimer] = []

    def release(self) -> None:
        """Hold no more, and let everything go."""
        self.over = True
        for timer in self.timers:
            timer.cancel()
        self.timers.clear()
        if self.held is not None:
            self.held.release()


class MessageRules:
    """Judges every message between two workers."""

    def __init__(self, plan: Plan, network: Network) -> None:
        self._network = network
        self._runtime = network.runtime
        self._stream = NamedStream(network.runtime.seed)
        self._start_s = 0.0
        self._rules = [
            _Rule(f"messages[{at}]", item, network) for at, item in enumerate(plan.messages)
        ]

    def __bool__(self) -> bool:
        return bool(self._rules)

    def begin(self, start_s: float) -> None:
        self._start_s = start_s
        if any(rule.until is not None for rule in self._rules):
            self._network.handled = self._handled

    def end(self) -> None:
        self._network.handled = None
        for rule in self._rules:
            rule.release()

    def judge(self, message: Message, nth: int, time_s: float) -> rules.Verdict | None:
        decided: rules.Verdict | None = None
        for rule in self._rules:
            # Everybody counts, so that taking away one item changes nothing for the others.
            if rule.matches(message, time_s) and decided is None:
                decided = self._verdict(rule, message, nth)
        return decided

    def _verdict(self, rule: _Rule, message: Message, nth: int) -> rules.Verdict | None:
        item = rule.item
        stream = self._stream.named(stream_name(item.id, message, nth))
        if item.probability < 1 and stream.random() >= item.probability:
            return None
        name = rule.name
        match item:
            case Delay():
                seconds = item.seconds
                if item.spread_s:
                    seconds += stream.random() * item.spread_s
                return rules.Delay(seconds, item=name, nth=nth)
            case Drop():
                return rules.Drop("dropped by a fault", item=name, nth=nth)
            case Duplicate():
                return rules.Duplicate(item.after_s, item=name, nth=nth)
            case Corrupt():
                return rules.Corrupt(item.flips, stream, item=name, nth=nth)
            case Fail():
                return rules.Fail(item.error, item=name, nth=nth)
            case Hold():
                held = rule.held
                if rule.over or held is None:
                    return None
                timer = self._runtime.call_later(
                    item.at_most_s, partial(self._let_go, held, message.id, message)
                )
                timer.worker = None
                rule.timers.append(timer)
                return rules.Hold(held, item=name, nth=nth)
        return None

    def _let_go(self, held: Held, id: int, sent: Message) -> None:
        """The longest time is over for one message: the copy on the wire of ``sent``."""
        for message in held.messages:
            if message.id == id and (message.src, message.dst, message.type) == (
                sent.src,
                sent.dst,
                sent.type,
            ):
                held.let_go(message)
                return

    def _handled(self, message: Message) -> None:
        if message.src == message.dst:
            return
        time_s = self._runtime.env._now - self._start_s
        for rule in self._rules:
            if rule.until is not None and not rule.over and rule.until(message, time_s):
                rule.release()
