"""How long each link of the network takes for a message: its bandwidth, then its latency."""

from __future__ import annotations

import math
from bisect import insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from squall.sim.world.latency import LatencyModel, parse_duration_s, parse_latency
from squall.sim.world.streams import NamedStream

if TYPE_CHECKING:
    from squall.real.rpc.message import Message

#: a part of a duration that sums of seconds may be off
_ROUNDING = 1e-9


class Carrier(Protocol):
    """Whatever carries messages over links."""

    def delay_s(self, message: Message, now_s: float) -> float:
        """How long a message takes that is sent now, in seconds; its link carries it from here on."""


class Links:
    """All links, one for each pair of workers and direction.

    ``latency``: a model or its spec, for every link. With ``bandwidth_bytes_per_s`` a link sends
    one message after the other; None: no limit.
    """

    def __init__(
        self, seed: int, latency: LatencyModel | str, bandwidth_bytes_per_s: float | None
    ) -> None:
        self._latency = parse_latency(latency) if isinstance(latency, str) else latency
        self._bandwidth_bytes_per_s = bandwidth_bytes_per_s
        self._stream = NamedStream(seed)
        # How many messages of a type a link has carried: what names the draws of the next.
        self._carried: dict[tuple[int, int, int], int] = {}
        self._free_at_s: dict[tuple[int, int], float] = {}

    def delay_s(self, message: Message, now_s: float) -> float:
        """How long a message takes that is sent now, in seconds; its link carries it from here on."""
        src, dst = message.src, message.dst
        delay_s = 0.0
        if self._bandwidth_bytes_per_s is not None:
            start_s = max(now_s, self._free_at_s.get((src, dst), 0.0))
            done_s = start_s + message.size_bytes / self._bandwidth_bytes_per_s
            self._free_at_s[src, dst] = done_s
            delay_s = done_s - now_s
        latency = self._latency
        if latency.is_random:
            key = (src, dst, int(message.type))
            count = self._carried.get(key, 0)
            self._carried[key] = count + 1
            stream = self._stream.named(b"link %d->%d/%x/%d/latency" % (*key, count))
        else:
            stream = self._stream
        return delay_s + latency.sample(stream)


class Cost(NamedTuple):
    """Of a link: n bytes take ``latency_s + n / bytes_per_s`` seconds."""

    latency_s: float = 0.0
    bytes_per_s: float = math.inf


@dataclass(frozen=True)
class LinkCosts:
    """``general``: of every link; ``pairs``: of those between two workers, the smaller id first."""

    general: Cost = field(default_factory=Cost)
    pairs: dict[tuple[int, int], Cost] = field(default_factory=dict)

    def of(self, src: int, dst: int) -> Cost:
        """Of the link between two workers, which is the same both ways."""
        return self.pairs.get((min(src, dst), max(src, dst)), self.general)


class Ports:
    """Links between workers that have one port each: what a worker sends leaves it one after the other, and so comes in
    what is sent to it, what is there first first, at the bandwidth of links in general. A slower link keeps none but its
    own messages waiting. A message without any bytes waits for nothing."""

    def __init__(self, costs: LinkCosts) -> None:
        self._costs = costs
        self._out_free_s: dict[int, float] = {}
        #: by worker: when something is coming in there, from and to, in order
        self._in_s: dict[int, list[tuple[float, float]]] = {}
        self._link_free_s: dict[tuple[int, int], float] = {}

    def delay_s(self, message: Message, now_s: float) -> float:
        """As :meth:`Carrier.delay_s`."""
        src, dst, size_bytes = message.src, message.dst, message.size_bytes
        cost = self._costs.of(src, dst)
        if not size_bytes:
            return cost.latency_s
        on_link_s = size_bytes / cost.bytes_per_s
        in_port_s = min(on_link_s, size_bytes / self._costs.general.bytes_per_s)
        free_s = max(self._out_free_s.get(src, 0.0), self._link_free_s.get((src, dst), 0.0))
        begins_s = max(now_s, free_s)
        self._out_free_s[src] = begins_s + in_port_s
        self._link_free_s[src, dst] = begins_s + on_link_s
        there_s = begins_s + cost.latency_s + on_link_s
        return self._comes_in_s(dst, there_s - in_port_s, in_port_s, now_s) - now_s

    def _comes_in_s(self, dst: int, there_s: float, takes_s: float, now_s: float) -> float:
        """When all of it has come in: in the first gap of that length, once it is there."""
        taken = [each for each in self._in_s.get(dst, ()) if each[1] > now_s]
        short_s = takes_s * (1 - _ROUNDING)
        for begins_s, ends_s in taken:
            if begins_s - there_s >= short_s:
                break
            there_s = max(there_s, ends_s)
        insort(taken, (there_s, there_s + takes_s))
        self._in_s[dst] = taken
        return there_s + takes_s


def parse_links(text: str) -> LinkCosts:
    """Of ``latency=5us,bandwidth=25e9;2-3:latency=1ms``: of all links, then of pairs of workers, which have the rest from
    those. Latency is a duration, bandwidth bytes a second. Raises ValueError with a message of one line."""
    general, pairs, seen = Cost(), dict[tuple[int, int], Cost](), set[tuple[int, ...]]()
    parts = [part.strip() for part in text.split(";") if part.strip()]
    for part in sorted(parts, key=lambda each: ":" in each):
        which, colon, about = part.rpartition(":")
        ends = _ends(which) if colon else ()
        if ends in seen:
            raise ValueError(f"{which or 'every link'} is given twice, expected once")
        seen.add(ends)
        cost = _cost(about, general)
        if ends:
            pairs[ends[0], ends[1]] = cost
        else:
            general = cost
    return LinkCosts(general, pairs)


def _ends(text: str) -> tuple[int, ...]:
    ends = text.strip().split("-")
    if len(ends) != 2 or not all(end.isdecimal() for end in ends) or int(ends[0]) == int(ends[1]):
        raise ValueError(f"{text!r} is no pair of ranks, expected two different ones, such as 2-3")
    return tuple(sorted(map(int, ends)))


def _cost(text: str, other: Cost) -> Cost:
    given: dict[str, float] = {}
    for word in text.split(","):
        name, _, value = (each.strip() for each in word.partition("="))
        if name in given:
            raise ValueError(f"{name} is given twice, expected once")
        if name == "latency":
            given[name] = parse_duration_s(value)
        elif name == "bandwidth":
            given[name] = _bandwidth(value)
        else:
            form = "latency=DURATION,bandwidth=BYTES_PER_SECOND, or one of these"
            raise ValueError(f"{word.strip()!r} is wrong, expected {form}, such as latency=5us")
    return Cost(given.get("latency", other.latency_s), given.get("bandwidth", other.bytes_per_s))


def _bandwidth(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < math.inf:
        raise ValueError(f"bandwidth {text!r} should be a number of bytes a second above 0")
    return found
