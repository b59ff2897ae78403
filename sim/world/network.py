"""The simulated network: it carries messages between workers, in virtual time.

A link keeps no order: of two messages the one whose latency ends first arrives first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Unpack, cast

from squall.real import tracing
from squall.real.rpc.message import Message
from squall.real.rpc.message_type import RESPONSE_FLAG
from squall.real.rpc.store import Store
from squall.real.rpc.transport import PeerLost, Receive, Transport
from squall.real.runtime import TaskOwner
from squall.real.worker import Worker
from squall.sim.world.delivery import NOBODY, Conditions, Delivery, Fate, Link, Receiver
from squall.sim.world.frames import checksum, flip
from squall.sim.world.held_messages import Held
from squall.sim.world.latency import LatencyModel
from squall.sim.world.links import Carrier, Links
from squall.sim.world.rules import (
    Corrupt,
    Delay,
    Drop,
    Duplicate,
    Fail,
    Hold,
    Holder,
    Reset,
    Rule,
    Ruling,
    Select,
    Which,
)
from squall.sim.world.scheduler import SimRuntime

#: seconds after the last message at which the end of a connection is seen
_CLOSE_S = 1e-9


class Network(Transport):
    """Carries messages between the workers of a simulation.

    ``latency`` and ``bandwidth_bytes_per_s``: see :class:`~squall.sim.world.links.Links`; ``links``: what carries
    messages in its place. A
    message to oneself arrives at once. ``connected``: no worker has to open its connections by a
    first call.
    """

    schemes = ("sim",)

    def __init__(
        self,
        runtime: SimRuntime,
        *,
        latency: LatencyModel | str = "0",
        bandwidth_bytes_per_s: float | None = None,
        links: Carrier | None = None,
        connected: bool = False,
        tracer: tracing.Tracer = tracing.NULL_TRACER,
    ) -> None:
        self.runtime = runtime
        self.connected = connected
        self.tracer = tracer
        self._links = links or Links(runtime.seed, latency, bandwidth_bytes_per_s)
        self._numbers = itertools.count()
        self._stores: dict[str, Store] = {}
        #: the workers that have asked for a store, which is forgotten when the last of them ends
        self._visitors: dict[str, dict[TaskOwner, None]] = {}
        self._receivers: dict[tuple[Store, int], Receiver] = {}
        #: the worker whose process is behind an id
        self._homes: dict[tuple[Store, int], Worker | None] = {}
        #: who has sent to a worker, and so has a connection to lose
        self._peers: dict[tuple[Store, int], dict[int, None]] = {}
        #: each with the group whose messages it judges, or None for all
        self._rules: list[tuple[Rule, Store | None]] = []
        #: by whom messages are held
        self._holding: dict[Holder, None] = {}
        self.conditions: Conditions | None = None
        #: told of a worker that can be reached from now on
        self.on_attach: Callable[[Worker], object] | None = None
        # One list serves all messages: who takes an event from the queue only forgets the list.
        self._arrive_callbacks = [self._arrive]

    # -- faults -------------------------------------------------------------------------

    def add_rule(self, rule: Rule, *, group: Store | None = None) -> None:
        """Let ``rule`` judge every message of ``group`` (None: of all) from now on."""
        self._rules.append((rule, group))

    def remove_rule(self, rule: Rule) -> None:
        """Take a rule away again. Raises ValueError if there is no such rule."""
        kept = [(other, group) for other, group in self._rules if other != rule]
        if len(kept) == len(self._rules):
            raise ValueError(f"no such rule: {rule!r}")
        self._rules = kept

    @contextmanager
    def rule(self, rule: Rule, *, group: Store | None = None) -> Iterator[None]:
        """Let ``rule`` judge every message until the end of the block."""
        self.add_rule(rule, group=group)
        try:
            yield
        finally:
            self.remove_rule(rule)

    def hold(self, **which: Unpack[Which]) -> Held:
        """Hold such messages on their way, to be delivered by hand; see :mod:`squall.sim.world.held_messages`.

        As a context manager it lets go at the end.
        """
        return Held(self, Select(**which))

    def in_flight(self) -> list[Message]:
        """The messages that are under way, held ones left out, in the order of their arrival."""
        return [delivery.message for delivery in self._under_way()]

    def deliver(self, message: Message) -> None:
        """Let a message that is under way arrive now. Raises LookupError if it is not."""
        for delivery in self._under_way():
            if delivery.message is message:
                again = Delivery(delivery.store, message, delivery.sent_at, delivery.receiver)
                again.fate, delivery.fate = delivery.fate, Fate(lost="")
                self.put_on_its_way(again)
                return
        raise LookupError(f"not under way: {message!r}")

    def put_on_its_way(self, delivery: Delivery, arrives_at_s: float = 0.0) -> None:
        """Let a message arrive then, or now if that is over."""
        env = self.runtime.env
        env.put(delivery, self._arrive_callbacks, max(0.0, arrives_at_s - env.now))

    def reset(self, store: Store, one: int, other: int, reason: str) -> None:
        """The connection of two workers breaks: what is under way between them is lost, and both
        see their pending calls fail. The next message opens another one."""
        for delivery in self._under_way():
            message = delivery.message
            if delivery.store is store and {message.src, message.dst} == {one, other}:
                delivery.fate = Fate(lost=reason)
        self._lose(store, one, other, reason)
        self._lose(store, other, one, reason)

    def vanish(self, worker: Worker) -> None:
        """The process of ``worker`` ends, and nobody is told: what is sent to it is lost."""
        for key, home in self._homes.items():
            if home is worker and key in self._receivers:
                self._receivers[key] = NOBODY

    def has_vanished(self, store: Store, worker_id: int) -> bool:
        return self._receivers.get((store, worker_id)) is NOBODY

    def announce(self, worker: Worker) -> None:
        """Those who had a connection to a process that vanished learn that it is gone."""
        for key, home in list(self._homes.items()):
            if home is worker and self._receivers.get(key) is NOBODY:
                self.detach(*key)

    def _judge(self, store: Store, message: Message) -> Ruling | None:
        for rule, group in self._rules:
            if group is None or group is store:
                verdict = rule(message)
                if verdict is not None:
                    return verdict
        return None

    # -- World --------------------------------------------------------------------------

    def meet_at(self, init_method: str, store: Store) -> None:
        """Let workers with this ``init_method`` meet at ``store`` instead of one that answers at
        once."""
        self._stores[init_method] = store

    def store(self, init_method: str) -> Store:
        store = self._stores.get(init_method)
        if store is None:
            store = self._stores[init_method] = Store(self.runtime)
        worker = self.runtime.running.worker
        if worker is not None:
            self._visitors.setdefault(init_method, {})[worker] = None
        return store

    def leave(self, worker: TaskOwner) -> None:
        for init_method, visitors in list(self._visitors.items()):
            if visitors.pop(worker, self) is None and not visitors:
                del self._visitors[init_method], self._stores[init_method]

    def attach(self, store: Store, worker_id: int, receive: Receive, peer_lost: PeerLost) -> None:
        if self._receivers.get((store, worker_id)) is NOBODY:
            # Whoever was there before is gone: those who still wait for it learn that now.
            self.detach(store, worker_id)
        self._receivers[store, worker_id] = (receive, peer_lost)
        home = self._homes[store, worker_id] = cast(Worker | None, self.runtime.running.worker)
        if self.on_attach is not None and home is not None:
            self.on_attach(home)

    def connect(self, store: Store, ids: Collection[int]) -> None:
        """Each of them has opened a connection to all others, and learns when one ends."""
        for one in ids:
            self._peers.setdefault((store, one), {}).update(dict.fromkeys(ids))
            del self._peers[store, one][one]

    def detach(self, store: Store, worker_id: int) -> None:
        if self._receivers.pop((store, worker_id), None) is None:
            return
        reason = f"the connection to worker {worker_id} was closed"
        home = self._homes.get((store, worker_id))
        ended = 0 if home is None else home.incarnation
        peers = self._peers.pop((store, worker_id), None)
        if peers is None:
            return
        sent = self._last_arrivals_s(store, worker_id)
        for peer in peers:
            lose = partial(self._lose, store, peer, worker_id, reason, ended)
            self._end((store, worker_id, peer), lose, sent.get(peer))

    def process_of(self, store: Store, worker_id: int) -> int | None:
        if (store, worker_id) not in self._receivers:
            return None
        home = self._homes.get((store, worker_id))
        return 0 if home is None else home.incarnation

    def send(
        self, store: Store, message: Message, *, lost: Callable[[], object] | None = None
    ) -> float | None:
        """``lost``: called when it does not arrive, by whoever sends it again, as TCP does; a second copy
        is thrown away then. Returns the time at which it arrives; None if a rule has judged it. Raises
        ConnectionError if nobody is there."""
        src, dst = message.src, message.dst
        # No variable for who receives: an error keeps this frame, and a crashed task keeps the error.
        if (store, dst) not in self._receivers:
            raise self._refused(f"worker {dst} is not connected")
        verdict = self._judge(store, message) if self._rules else None
        if isinstance(verdict, Fail) and lost is None:
            self._report(message, verdict)
            raise self._refused(verdict.error)
        env = self.runtime.env
        now = env.now
        copy = message.copy()
        copy.number = next(self._numbers)
        if src == dst:
            delay_s = 0.0
        else:
            delay_s = self._links.delay_s(copy, now)
            if self.conditions is not None:
                delay_s = self.conditions.arrival_s(copy, now, now + delay_s) - now
            if not copy.type & RESPONSE_FLAG:
                # A connection has two ends.
                self._peers.setdefault((store, dst), {})[src] = None
                self._peers.setdefault((store, src), {})[dst] = None
        self._sent(copy)
        delivery = Delivery(store, copy, now, self._receivers[store, dst])
        if verdict is not None:
            self._obey(verdict, delivery, delay_s, lost)
            return None
        env.put(delivery, self._arrive_callbacks, delay_s)
        return now + delay_s

    # -- inside -------------------------------------------------------------------------

    def _refused(self, why: str) -> ConnectionError:
        """What to raise."""
        self.runtime.refused()
        return ConnectionError(why)

    def _obey(
        self,
        verdict: Ruling,
        delivery: Delivery,
        delay_s: float,
        lost: Callable[[], object] | None,
    ) -> None:
        """Do to a message that was sent, and would take ``delay_s``, what was decided."""
        message = delivery.message
        self._report(message, verdict)
        arrives_at_s = self.runtime.env.now + delay_s
        match verdict:
            case Drop() | Corrupt() | Fail() if lost is not None:
                self.dropped(message, "it is sent again")
                lost()
            case Duplicate() if lost is not None:
                self.put_on_its_way(delivery, arrives_at_s)
            case Drop():
                self.dropped(message, verdict.reason)
            case Reset():
                reason = f"the connection between workers {message.src} and {message.dst} was lost"
                self.dropped(message, reason)
                break_off = partial(self.reset, delivery.store, message.src, message.dst, reason)
                self.runtime.call_later_for_nobody(delay_s * verdict.part, break_off)
            case Delay():
                self.put_on_its_way(delivery, arrives_at_s + verdict.seconds)
            case Hold():
                self._holding[verdict.held] = None
                verdict.held.add(delivery, arrives_at_s)
            case Duplicate():
                self.put_on_its_way(delivery, arrives_at_s)
                for after_s in verdict.after_s:
                    copy = message.copy()
                    copy.number = next(self._numbers)
                    self._sent(copy)
                    again = Delivery(delivery.store, copy, delivery.sent_at, delivery.receiver)
                    self.put_on_its_way(again, arrives_at_s + after_s)
            case Corrupt():
                delivery.fate = Fate(check=checksum(message))
                flip(message, verdict.flips, verdict.stream)
                self.put_on_its_way(delivery, arrives_at_s)
            case _:
                raise TypeError(f"a rule gave {verdict!r}, which is no verdict")

    def _sent(self, message: Message) -> None:
        if self.tracer.enabled:
            self.tracer.emit(
                tracing.MESSAGE_SENT,
                message.number,
                message.src,
                message.dst,
                message.type._name_,
                message.id,
                message.size_bytes,
                message.about,
            )

    def _report(self, message: Message, verdict: Ruling) -> None:
        if self.tracer.enabled:
            self.tracer.emit(
                tracing.FAULT_INJECTED,
                verdict.kind,
                verdict.item,
                -1,
                message.src,
                message.dst,
                message.type._name_,
                verdict.nth,
                message.number,
                verdict.detail,
            )

    def _under_way(self) -> list[Delivery]:
        """Everything that is under way and will arrive, in that order."""
        return [
            delivery
            for _, delivery in self.runtime.env.queued(Delivery)
            if delivery.fate is None or delivery.fate.lost is None
        ]

    def _lose(
        self, store: Store, peer: int, lost: int, reason: str, ended: int | None = None
    ) -> None:
        receiver = self._receivers.get((store, peer))
        if receiver is None:
            return
        processes, home = self.runtime.processes, self._homes.get((store, peer))
        if processes is not None and processes.is_paused(home):
            # It learns of it when it goes on, behind what has come for it before.
            lose = partial(self._lose, store, peer, lost, reason, ended)
            behind = partial(self.runtime.call_later_for_nobody, _CLOSE_S, lose)
            self.runtime.call_later_for_nobody(0.0, behind, pauses_with=home)
            return
        # Where no process can end before its time, each end is that of a group.
        if ended is not None and self.runtime.processes is not None and self.tracer.enabled:
            self.tracer.emit(tracing.PEER_ENDED, peer, lost, ended)
        receiver[1](lost, reason, ended)

    def _end(self, link: Link, lose: Callable[[], object], sent_s: float | None) -> None:
        """Of a connection: what was sent before it was closed still arrives, the last of it ``sent_s`` or when it is
        not held any more, before its end does."""
        runtime = self.runtime
        for held in self._holding:
            if held.holds(link):
                held.wait_behind(link, partial(self._end_late, link, lose))
                return
        if sent_s is not None:
            runtime.call_later_for_nobody(sent_s - runtime.env.now + _CLOSE_S, lose)
        elif runtime.processes is not None and runtime.running.worker is not None:
            # Not in this task: its process may end before the peer has heard all.
            runtime.call_later_for_nobody(0.0, lose)
        else:
            lose()

    def _end_late(self, link: Link, lose: Callable[[], object]) -> None:
        store, src, dst = link
        self._end(link, lose, self._last_arrivals_s(store, src).get(dst))

    def _last_arrivals_s(self, store: Store, src: int) -> dict[int, float]:
        """When the last message from ``src`` that is under way arrives, by its destination."""
        last: dict[int, float] = {}
        for at_s, delivery in self.runtime.env.queued(Delivery):
            if delivery.store is store and delivery.message.src == src:
                last[delivery.message.dst] = at_s
        return last

    def _arrive(self, delivery: Delivery) -> None:
        message = delivery.message
        key = (delivery.store, message.dst)
        receiver = self._receivers.get(key)
        if receiver is not delivery.receiver or receiver is NOBODY:
            self.dropped(message, "not connected" if receiver is None else "its process is gone")
            return
        processes = self.runtime.processes
        if processes is not None and processes.hold_message(
            self._homes.get(key), delivery, self._arrive_callbacks
        ):
            return
        if delivery.fate is not None and self._fails(delivery, delivery.fate):
            return
        tracer = self.tracer
        if tracer.enabled:
            tracer.emit(
                tracing.MESSAGE_DELIVERED,
                message.number,
                message.src,
                message.dst,
                message.type._name_,
                message.id,
                self.runtime.env.now - delivery.sent_at,
            )
        receiver[0](message)

    def _fails(self, delivery: Delivery, fate: Fate) -> bool:
        """Whether a message to which something was done on its way does not arrive."""
        message = delivery.message
        if fate.lost is not None:
            if fate.lost:
                self.dropped(message, fate.lost)
            return True
        if fate.check is None or checksum(message) == fate.check:
            return False
        # As TLS does when a record fails its check: where the next one begins is unknown.
        self.dropped(message, "its frame check failed")
        reason = (
            f"the connection between workers {message.src} and {message.dst} was reset: a frame "
            "failed its check"
        )
        self.reset(delivery.store, message.src, message.dst, reason)
        return True

    def dropped(self, message: Message, reason: str) -> None:
        """Tell the trace that a message does not arrive."""
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
