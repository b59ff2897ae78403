"""Faults that hit links: for a while, messages on them are lost or late."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

from squall.sim.faults.fault import Effect, Fault, Group, Injection, Judge
from squall.sim.faults.limits import Cut, Problem, Rank, Seconds, window_problem
from squall.sim.faults.words import ends, window
from squall.sim.world import rules

if TYPE_CHECKING:
    from squall.real.rpc.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFault(Fault):
    """Something about the links from ``src`` to ``dst`` (None: any), for a while."""

    group: ClassVar[Group] = "links"

    src: Rank | None = None
    dst: Rank | None = None
    from_s: Seconds = 0.0
    until_s: Seconds | None = None

    def where(self, names: Mapping[int, str]) -> str:
        """The links, in words. ``names``: of workers."""
        which = "every" if self.src is None or self.dst is None else "the"
        return f"{which} link{ends(self.src, self.dst, names)}"

    def told(self, names: Mapping[int, str]) -> str:
        return self.done_to(self.where(names)) + window(self.from_s, self.until_s)

    def done_to(self, links: str) -> str:
        """What is done to ``links``, in words."""
        raise NotImplementedError

    def problem(self) -> Problem | None:
        return window_problem(self.from_s, self.until_s)


L = TypeVar("L", bound=LinkFault)


class LinkEffect(Effect[L]):
    """An item about links at work in one run."""

    def __init__(self, item: L, name: str, injection: Injection) -> None:
        super().__init__(item, name, injection)
        heal_s = injection.heal_s
        #: when it ends
        self.until_s = heal_s if item.until_s is None else min(item.until_s, heal_s)

    def covers(self, message: Message, time_s: float) -> bool:
        """Whether it is about a message that is sent ``time_s`` after the start."""
        item = self.item
        return (
            (item.src is None or item.src == message.src)
            and (item.dst is None or item.dst == message.dst)
            and item.from_s <= time_s < self.until_s
        )


class LossyLink(LinkEffect[L], Judge[L]):
    """An item that keeps messages on links from arriving."""

    def judge(self, message: Message, nth: int, time_s: float) -> rules.Ruling | None:
        return self.verdict(message, nth, time_s) if self.covers(message, time_s) else None

    def verdict(self, message: Message, nth: int, time_s: float) -> rules.Ruling | None:
        """What becomes of a message that it is about; None: nothing."""
        raise NotImplementedError


class LateLink(LinkEffect[L]):
    """An item that changes when messages on links arrive."""

    def arrival_s(self, message: Message, sent_s: float, arrives_s: float) -> float:
        """When a message that it is about arrives, which would arrive at ``arrives_s``."""
        raise NotImplementedError


def cut_off(
    how: Cut, kind: str, item: str, nth: int, open_in_s: float, message: Message
) -> rules.Ruling:
    """What becomes of a message whose way is closed for another ``open_in_s`` seconds."""
    if how == "fail":
        error = f"no route from worker {message.src} to {message.dst}"
        return rules.Fail(error, kind=kind, item=item, nth=nth)
    if how == "hold" and math.isfinite(open_in_s):
        return rules.Delay(open_in_s, kind=kind, item=item, nth=nth)
    return rules.Drop(kind, kind=kind, item=item, nth=nth)
