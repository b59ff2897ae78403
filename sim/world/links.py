"""How long each link of the network takes for a message: its bandwidth, then its latency."""

from __future__ import annotations

from squall.real.rpc.message import Message
from squall.sim.world.latency import LatencyModel, parse_latency
from squall.sim.world.streams import NamedStream


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
