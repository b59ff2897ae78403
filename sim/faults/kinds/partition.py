"""Partitions of the network."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from squall.model.events.names import worker_named
from squall.sim.faults.choices import Choices, drawn
from squall.sim.faults.fault import Effect, Fault, Group, Injection, Judge
from squall.sim.faults.limits import Cut, Problem, Rank, Seconds, window_problem
from squall.sim.faults.links import cut_off
from squall.sim.faults.words import CUTS, listed, window
from squall.sim.world.rules import Ruling

if TYPE_CHECKING:
    from squall.real.rpc.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition(Fault):
    """Workers of different ``groups`` do not reach each other; one in no group reaches all.

    With ``one_way`` only what the first group sends to the others is stopped. What was sent before
    ``from_s`` still arrives. With None as ``until_s`` it lasts until ``heal_s``.
    """

    group: ClassVar[Group] = "partitions"
    position: ClassVar[int] = 1

    kind: Literal["partition"] = "partition"
    groups: Annotated[tuple[tuple[Rank, ...], ...], Field(min_length=2)]
    one_way: bool = False
    cut: Cut = "drop"
    from_s: Seconds = 0.0
    until_s: Seconds | None = None

    def told(self, names: Mapping[int, str]) -> str:
        groups = [listed([worker_named(names, rank) for rank in each]) for each in self.groups]
        first, *others = groups
        what = f"separates {' from '.join(groups)}"
        if self.one_way:
            what = f"stops messages from {first} to {' and '.join(others)}"
        return f"{what}{window(self.from_s, self.until_s)} ({CUTS[self.cut]})"

    def problem(self) -> Problem | None:
        seen: dict[int, int] = {}
        for at, group in enumerate(self.groups):
            for number, worker in enumerate(group):
                if worker in seen:
                    text = f"{worker} is in groups[{seen[worker]}] too"
                    return f"groups[{at}][{number}]", text
                seen[worker] = at
        return window_problem(self.from_s, self.until_s)

    def renumbered(self, ranks: Mapping[int, int]) -> Self | None:
        groups = tuple(
            tuple(dict.fromkeys(ranks[rank] for rank in group if rank in ranks))
            for group in self.groups
        )
        if sum(map(len, groups)) > len({rank for group in groups for rank in group}):
            return None  # workers of two groups have become one
        return replace(self, groups=groups)

    def at_work(self, name: str, injection: Injection) -> Effect[Any]:
        return _Parted(self, name, injection)


class _Parted(Judge[Partition]):
    def __init__(self, item: Partition, name: str, injection: Injection) -> None:
        super().__init__(item, name, injection)
        self._until_s = injection.heal_s if item.until_s is None else item.until_s
        self._groups = {rank: at for at, group in enumerate(item.groups) for rank in group}

    def judge(self, message: Message, nth: int, time_s: float) -> Ruling | None:
        item = self.item
        if not item.from_s <= time_s < self._until_s or not self._separates(message):
            return None
        return cut_off(item.cut, item.kind, self.name, nth, self._until_s - time_s, message)

    def _separates(self, message: Message) -> bool:
        one, other = self._groups.get(message.src), self._groups.get(message.dst)
        if one is None or other is None or one == other:
            return False
        return one == 0 if self.item.one_way else True


@drawn("partition", mild=True)
def one(choices: Choices, stream: random.Random) -> list[Partition]:
    ranks = list(range(choices.workers))
    stream.shuffle(ranks)
    cut_at = stream.randint(1, choices.workers - 1)
    from_s = choices.at_s(stream)
    mild = choices.is_mild
    cuts: tuple[Cut, ...] = ("hold",) if mild else ("drop", "drop", "hold", "fail")
    until_s = None if not mild and stream.random() < 0.3 else from_s + choices.for_s(stream)
    return [
        Partition(
            groups=(tuple(sorted(ranks[:cut_at])), tuple(sorted(ranks[cut_at:]))),
            one_way=stream.random() < 0.4,
            cut=stream.choice(cuts),
            from_s=from_s,
            until_s=until_s,
        )
    ]
