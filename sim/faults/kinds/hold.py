"""Messages that wait on their way until another one was handled."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from squall.sim.faults.choices import REQUESTS, Choices, drawn
from squall.sim.faults.fault import Effect, Injection
from squall.sim.faults.inner import Inside
from squall.sim.faults.limits import Problem, Seconds
from squall.sim.faults.messages import Hit, Matcher, MessageEffect, MessageFault, Selector
from squall.sim.world import rules
from squall.sim.world.held_messages import Held
from squall.sim.world.primitives import SimTimer

if TYPE_CHECKING:
    from squall.real.rpc.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold(MessageFault):
    """It is held back until another message has been handled, which ``until`` selects (its ``nth`` counts
    from the start of the run), but no longer than ``at_most_s``."""

    position: ClassVar[int] = 4

    kind: Literal["hold"] = "hold"
    until: Selector
    at_most_s: Seconds = 60.0

    def told(self, names: Mapping[int, str]) -> str:
        until = f"until {self.until.which(names)} was handled, for {self.at_most_s:g} s at most"
        return f"{MessageFault.told(self, names)}, {until}"

    def done_to(self, which: str) -> str:
        return f"holds {which}"

    def problem(self) -> Problem | None:
        found = self.until.problem()
        if found is not None:
            name, text = found
            return f"until.{name}", text
        return MessageFault.problem(self)

    def renumbered(self, ranks: Mapping[int, int]) -> Self | None:
        found = MessageFault.renumbered(self, ranks)
        if found is None:
            return None
        src, dst = self.until.src, self.until.dst
        until = replace(
            self.until,
            src=None if src is None else ranks.get(src),
            dst=None if dst is None else ranks.get(dst),
        )
        return replace(found, until=until)

    def at_work(self, name: str, injection: Injection) -> Effect[Any]:
        return _Holding(self, name, injection)


class _Holding(MessageEffect[Hold]):
    def __init__(self, item: Hold, name: str, injection: Injection) -> None:
        super().__init__(item, name, injection)
        self._held = Held(injection.network)
        self._until = Matcher(item.until)
        self._over = False
        #: when each message that is held is let go at the latest
        self._timers: list[SimTimer] = []
        injection.shared(Inside).on_handled(self._handled)

    def hit(self, hit: Hit) -> rules.Ruling | None:
        if self._over:
            return None
        timer = self.injection.runtime.call_later(
            self.item.at_most_s, lambda: self._let_go(hit.message)
        )
        timer.worker = None
        self._timers.append(timer)
        return rules.Hold(self._held, item=hit.item, nth=hit.nth)

    def heal(self) -> None:
        """Hold no more, and let everything go."""
        self._over = True
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._held.release()

    def _let_go(self, sent: Message) -> None:
        """The longest time is over for one message: the copy on the wire of ``sent``."""
        for message in self._held.messages:
            if (message.id, message.src, message.dst, message.type) == (
                sent.id,
                sent.src,
                sent.dst,
                sent.type,
            ):
                self._held.let_go(message)
                return

    def _handled(self, message: Message) -> None:
        if message.src == message.dst or self._over:
            return
        if self._until(message, self.injection.time_s()):
            self.heal()


@drawn("hold", mild=True)
def some(choices: Choices, stream: random.Random) -> list[Hold]:
    found = []
    for _ in choices.items(stream):
        until = Selector(types=choices.types(stream, REQUESTS), nth=(stream.randint(1, 6),))
        at_most_s = choices.timeout_s * (0.3 if choices.is_mild else stream.choice((0.3, 2)))
        which = choices.which(stream, 0.2)
        found.append(Hold(types=choices.types(stream), until=until, at_most_s=at_most_s, **which))
    return found
