"""The simulated network: links with latency and bandwidth, in virtual time.

Nothing is ordered but by arrival: a message with less luck is overtaken.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from real import tracing
from real.rpc.message import RESPONSE_FLAG, Message
from real.rpc.store import Store
from real.rpc.transport import PeerLost, Receive, World
from sim.latency import LatencyModel, parse_latency
from sim.rules import Delay, Drop, Fail, Rule, Verdict
from sim.scheduler import SimRuntime
from sim.streams import NamedStream

if TYPE_CHECKING:
    from real.worker import Worker


#: how long after the last message the end of a connection is seen
_CLOSE_S = 1e-9


class _Delivery:
    """The SimPy event of one message's arrival."""

    __slots__ = ("callbacks", "message", "sent_at", "store")

    _ok = True
    _value = None

    def __init__(self, store: Store, message: Message, sent_at: float) -> None:
        self.store = store
        self.message = message
        self.sent_at = sent_at
        self.callbacks: list[Callable[[Any], None]] | None = None


class Network(World):
    """Carries messages between the workers of a simulation.

    ``latency``: a model or its spec, for every link. ``bandwidth_bytes_per_s``: None for no
    limit; otherwise a link sends one message after the other. A message to oneself arrives at
    once.
    """

    def __init__(
        self,
        runtime: SimRuntime,
        *,
        latency: LatencyModel | str = "0",
        bandwidth_bytes_per_s: float | None = None,
        tracer: tracing.Tracer = tracing.NULL_TRACER,
    ) -> None:
        self.runtime = runtime
        self.latency = parse_latency(latency) if isinstance(latency, str) else latency
        self.bandwidth_bytes_per_s = bandwidth_bytes_per_s
        self.tracer = tracer
        self._stream = NamedStream(runtime.seed)
        self._numbers = itertools.count()
        self._stores: dict[str, Store] = {}
        #: the workers that have been at a store; it ends with the last of their processes
        self._visitors: dict[str, dict[Worker, None]] = {}
        self._receivers: dict[tuple[Store, int], tuple[Receive, PeerLost]] = {}
        # How many messages of a type a link has carried: what names the draws of the next.
        self._carried: dict[tuple[int, int, int], int] = {}
        self._free_at: dict[tuple[int, int], float] = {}
        #: who has sent to a worker, and so has a connection to lose
        self._peers: dict[tuple[Store, int], dict[int, None]] = {}
        #: each with the group whose messages it judges, or None for all
        self._rules: list[tuple[Rule, Store | None]] = []
        self._arrive_callbacks = self._arrive

    # -- faults -------------------------------------------------------------------------

    def add_rule(self, rule: Rule, *, group: Store | None = None) -> None:
        """Let ``rule`` judge every message of ``group`` (None: of all) from now on."""
        self._rules.append((rule, group))

    def remove_rule(self, rule: Rule) -> None:
        """Take a rule away again. Raises ValueError if there is no such rule."""
        kept = [(other, group) for other, group in self._rules if other is not rule]
        if len(kept) == len(self._rules):
            raise ValueError(f"no such rule: {rule!r}")
        self._rules = kept

    def _judge(self, store: Store, message: Message) -> Verdict:
        for rule, group in self._rules:
            if group is None or group is store:
                verdict = rule(message)
                if verdict is not None:
                    return verdict
        return None

    # -- World --------------------------------------------------------------------------

    def store(self, init_method: str) -> Store:
        store = self._stores.get(init_method)
        if store is None:
            store = self._stores[init_method] = Store(self.runtime)
        worker = self.runtime.running.worker
        if worker is not None:
            self._visitors.setdefault(init_method, {})[worker] = None
        return store

    def leave(self, worker: Worker) -> None:
        for init_method, visitors in list(self._visitors.items()):
            if visitors.pop(worker, self) is None and not visitors:
                del self._visitors[init_method], self._stores[init_method]

    def attach(self, store: Store, worker_id: int, receive: Receive, peer_lost: PeerLost) -> None:
        self._receivers[store, worker_id] = (receive, peer_lost)

    def detach(self, store: Store, worker_id: int) -> None:
        if self._receivers.pop((store, worker_id), None) is None:
            return
        reason = f"the connection to worker {worker_id} was closed"
        peers = self._peers.pop((store, worker_id), None)
        if peers is None:
            return
        runtime = self.runtime
        sent = self._last_arrivals_s(store, worker_id)
        for peer in peers:
            if peer in sent:
                # Whoever reads to the end finds what was sent before the connection was closed.
                after_s = sent[peer] - runtime.now() + _CLOSE_S
                runtime.call_later(after_s, partial(self._lose, store, peer, worker_id, reason))
            else:
                self._lose(store, peer, worker_id, reason)

    def send(self, store: Store, message: Message) -> None:
        src, dst = message.src, message.dst
        if (store, dst) not in self._receivers:
            raise ConnectionError(f"worker {dst} is not connected")
        verdict = self._judge(store, message) if self._rules else None
        if isinstance(verdict, Fail):
            raise ConnectionError(verdict.error)
        runtime = self.runtime
        now = runtime.env._now
        copy = message.copy()
        copy.number = number = next(self._numbers)
        if src == dst:
            delay_s = 0.0
        else:
            delay_s = self._delay_s(copy, now)
            if not copy.type & RESPONSE_FLAG:
                self._peers.setdefault((store, dst), {})[src] = None
        tracer = self.tracer
        if tracer.enabled:
            tracer.emit(
                tracing.MESSAGE_SENT,
                number,
                src,
                dst,
                copy.type._name_,
                copy.id,
                copy.size_bytes,
                copy.about,
            )
        if isinstance(verdict, Drop):
            self._dropped(copy, verdict.reason)
            return
        if isinstance(verdict, Delay):
            delay_s += verdict.seconds
        runtime.schedule(_Delivery(store, copy, now), [self._arrive_callbacks], delay_s)

    # -- inside -------------------------------------------------------------------------

    def _lose(self, store: Store, peer: int, lost: int, reason: str) -> None:
        receiver = self._receivers.get((store, peer))
        if receiver is not None:
            receiver[1](lost, reason)

    def _last_arrivals_s(self, store: Store, src: int) -> dict[int, float]:
        """When the last message from ``src`` that is under way arrives, by its destination."""
        last: dict[int, float] = {}
        queue: Iterable[tuple[float, Any, Any, Any]] = self.runtime.env._queue
        for at, _, _, event in queue:
            if type(event) is _Delivery and event.store is store and event.message.src == src:
                dst = event.message.dst
                last[dst] = max(at, last.get(dst, at))
        return last

    def _delay_s(self, message: Message, now: float) -> float:
        src, dst = message.src, message.dst
        delay_s = 0.0
        if self.bandwidth_bytes_per_s is not None:
            start = max(now, self._free_at.get((src, dst), 0.0))
            done = start + message.size_bytes / self.bandwidth_bytes_per_s
            self._free_at[src, dst] = done
            delay_s = done - now
        latency = self.latency
        if latency.is_random:
            key = (src, dst, int(message.type))
            count = self._carried.get(key, 0)
            self._carried[key] = count + 1
            stream = self._stream.named(b"link %d->%d/%x/%d/latency" % (*key, count))
        else:
            stream = self._stream
        return delay_s + latency.sample(stream)

    def _arrive(self, delivery: _Delivery) -> None:
        runtime = self.runtime
        runtime.live -= 1
        message = delivery.message
        receiver = self._receivers.get((delivery.store, message.dst))
        tracer = self.tracer
        if receiver is None:
            self._dropped(message, "not connected")
            return
        if tracer.enabled:
            tracer.emit(
                tracing.MESSAGE_DELIVERED,
                message.number,
                message.src,
                message.dst,
                message.type._name_,
                message.id,
                runtime.env._now - delivery.sent_at,
            )
        receiver[0](message)

    def _dropped(self, message: Message, reason: str) -> None:
        if self.tracer.enabled:
            self.tracer.emit(
                tracing.MESSAGE_DROPPED,
                message.number,
                message.src,
                message.dst,
                message.type._name_,
                message.id,
                reason,
            )
