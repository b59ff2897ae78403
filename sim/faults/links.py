"""The items of a plan that hit links, and partitions of the network."""

from __future__ import annotations

import math

from squall.real import tracing
from squall.real.rpc.message import Message
from squall.sim.faults.messages import stream_name
from squall.sim.faults.plan import (
    Bandwidth,
    Cut,
    Fifo,
    Flapping,
    LatencySpike,
    LinkFault,
    Loss,
    Partition,
    Plan,
)
from squall.sim.world import rules
from squall.sim.world.network import Network
from squall.sim.world.streams import NamedStream


def _cut(
    how: Cut, kind: str, item: str, nth: int, open_in_s: float, src: int, dst: int
) -> rules.Verdict:
    """What becomes of a message whose way is closed for another ``open_in_s`` seconds."""
    if how == "fail":
        return rules.Fail(f"no route from worker {src} to {dst}", kind=kind, item=item, nth=nth)
    if how == "hold" and math.isfinite(open_in_s):
        return rules.Delay(open_in_s, kind=kind, item=item, nth=nth)
    return rules.Drop(kind, kind=kind, item=item, nth=nth)


class Partitions:
    """Cuts the ways between groups of workers."""

    def __init__(self, plan: Plan) -> None:
        self._partitions = plan.partitions
        self._heal_s = math.inf if plan.heal_s is None else plan.heal_s
        self._groups = [
            {worker: at for at, group in enumerate(item.groups) for worker in group}
            for item in plan.partitions
        ]

    def __bool__(self) -> bool:
        return bool(self._partitions)

    def judge(self, message: Message, nth: int, time_s: float) -> rules.Verdict | None:
        src, dst = message.src, message.dst
        for at, (item, groups) in enumerate(zip(self._partitions, self._groups, strict=True)):
            until_s = self._heal_s if item.until_s is None else item.until_s
            if item.from_s <= time_s < until_s and self._separates(item, groups, src, dst):
                name = f"partitions[{at}]"
                return _cut(item.cut, "partition", name, nth, until_s - time_s, src, dst)
        return None

    @staticmethod
    def _separates(item: Partition, groups: dict[int, int], src: int, dst: int) -> bool:
        one, other = groups.get(src), groups.get(dst)
        if one is None or other is None or one == other:
            return False
        return one == 0 if item.one_way else True


class Links:
    """Loses messages on bad links, and says when the others arrive."""

    def __init__(self, plan: Plan, network: Network) -> None:
        self._network = network
        self._heal_s = math.inf if plan.heal_s is None else plan.heal_s
        self._stream = NamedStream(network.runtime.seed)
        self._lossy = [
            (f"links[{at}]", item)
            for at, item in enumerate(plan.links)
            if isinstance(item, Loss | Flapping)
        ]
        #: what changes when messages arrive
        self.conditions = [
            (f"links[{at}]", item)
            for at, item in enumerate(plan.links)
            if isinstance(item, LatencySpike | Bandwidth | Fifo)
        ]
        self.start_s = 0.0
        self._free_at: dict[tuple[str, int, int], float] = {}
        self._last: dict[tuple[int, int], float] = {}

    def __bool__(self) -> bool:
        return bool(self._lossy)

    def _covers(self, item: LinkFault, message: Message, time_s: float) -> bool:
        return (
            (item.src is None or item.src == message.src)
            and (item.dst is None or item.dst == message.dst)
            and item.from_s <= time_s < self._until_s(item)
        )

    def _until_s(self, item: LinkFault) -> float:
        return self._heal_s if item.until_s is None else min(item.until_s, self._heal_s)

    def judge(self, message: Message, nth: int, time_s: float) -> rules.Verdict | None:
        for name, item in self._lossy:
            if not self._covers(item, message, time_s):
                continue
            if isinstance(item, Loss):
                stream = self._stream.named(stream_name(item.id, message, nth))
                if stream.random() < item.probability:
                    return rules.Drop("loss", kind="loss", item=name, nth=nth)
            elif isinstance(item, Flapping):
                into_s = (time_s - item.from_s) % item.period_s
                if into_s < item.down_s:
                    open_in_s = min(item.down_s - into_s, self._until_s(item) - time_s)
                    src, dst = message.src, message.dst
                    return _cut(item.cut, "flapping", name, nth, open_in_s, src, dst)
        return None

    def arrival_s(self, message: Message, sent_s: float, arrives_s: float) -> float:
        """When a message arrives that would arrive at ``arrives_s`` (see Conditions)."""
        time_s = sent_s - self.start_s
        for name, item in self.conditions:
            if not self._covers(item, message, time_s):
                continue
            before_s, link = arrives_s, (message.src, message.dst)
            if isinstance(item, LatencySpike):
                arrives_s = sent_s + (arrives_s - sent_s) * item.factor + item.extra_s
            elif isinstance(item, Bandwidth):
                start_s = max(sent_s, self._free_at.get((name, *link), 0.0))
                done_s = start_s + message.size_bytes / item.bytes_per_s
                self._free_at[name, *link] = done_s
                arrives_s += done_s - sent_s
            else:
                # A later one of two arrivals at one instant might be handled first.
                last_s = self._last.get(link)
                if last_s is not None and arrives_s <= last_s:
                    arrives_s = math.nextafter(last_s, math.inf)
                self._last[link] = arrives_s
            if arrives_s != before_s:
                self._report(name, item, message, arrives_s - before_s)
        return arrives_s

    def _report(
        self, name: str, item: LatencySpike | Bandwidth | Fifo, message: Message, by_s: float
    ) -> None:
        tracer = self._network.tracer
        if tracer.enabled:
            tracer.emit(
                tracing.FAULT_INJECTED,
                item.kind,
                name,
                -1,
                message.src,
                message.dst,
                message.type._name_,
                0,
                message.number,
                by_s,
            )
