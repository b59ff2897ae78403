"""The network of a simulation whose order is chosen: it tells what the steps touch there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from squall.real.rpc.agent import RpcAgent
from squall.real.rpc.message import Message
from squall.real.rpc.message_type import RESPONSE_FLAG
from squall.real.rpc.store import Store
from squall.real.rpc.transport import PeerLost, Receive
from squall.sim.world.controlled_time import (
    EVERYTHING,
    STORE,
    ChosenTime,
    CrowdedError,
    NotExplorableError,
)
from squall.sim.world.delivery import Delivery
from squall.sim.world.network import Network
from squall.sim.world.primitives import SimLock
from squall.sim.world.scheduler import SimRuntime


class ChosenNetwork(Network):
    """Carries messages as :class:`Network` does. Its runtime has a :class:`ChosenTime`.

    What steps of several workers have in common is here: who receives, and the stores. With the
    dependence "worker" an arrival touches its worker, as tasks do. With "delivery" it touches the
    call that it answers or the request that it is, the count of requests that are under way, and
    (which no arrival changes) the agent: ``RpcAgent.receive`` does no more than take the call out of
    its table, or note the request, and start a task.
    """

    def __init__(self, runtime: SimRuntime, **options: Any) -> None:
        super().__init__(runtime, **options)
        assert isinstance(runtime.env, ChosenTime)
        self._time = runtime.env
        self._time.arrivals = self._arrive_callbacks

    def store(self, init_method: str) -> Store:
        is_new = init_method not in self._stores
        store = super().store(init_method)
        if is_new:
            store._lock = _TouchingLock(self.runtime, self._time)
        self._time.touch(STORE)
        return store

    def attach(self, store: Store, worker_id: int, receive: Receive, peer_lost: PeerLost) -> None:
        self._time.touch(("receiver", worker_id))
        super().attach(store, worker_id, receive, peer_lost)

    def detach(self, store: Store, worker_id: int) -> None:
        self._time.touch(("receiver", worker_id))
        self._time.touch(("under way from", worker_id))  # who is told now, and who later
        peers = self._peers.get((store, worker_id))
        if peers is not None:
            # Who has sent first depends on the order, and is to make no difference.
            self._peers[store, worker_id] = dict.fromkeys(sorted(peers))
        super().detach(store, worker_id)

    def process_of(self, store: Store, worker_id: int) -> int | None:
        self._time.touch(("receiver", worker_id), "read")
        return super().process_of(store, worker_id)

    def send(
        self, store: Store, message: Message, *, lost: Callable[[], object] | None = None
    ) -> None:
        self._time.touch(("receiver", message.dst), "read")
        if self._rules:
            # What a rule says depends on how many messages of this link it has seen.
            self._time.touch(("rules", message.src, message.dst))
        super().send(store, message, lost=lost)

    def reset(self, store: Store, one: int, other: int, reason: str) -> None:
        self._time.touch(EVERYTHING)
        super().reset(store, one, other, reason)

    def _lose(
        self, store: Store, peer: int, lost: int, reason: str, ended: int | None = None
    ) -> None:
        self._touch_home(store, peer)
        super()._lose(store, peer, lost, reason, ended)

    def _arrive(self, delivery: Delivery) -> None:
        message, time = delivery.message, self._time
        time.touch(("receiver", message.dst), "read")
        time.touch(("under way from", message.src), "add")
        chooser = time.chooser
        if chooser.grain == "message" or chooser.dependence == "worker":
            self._touch_home(delivery.store, message.dst)
            super()._arrive(delivery)
            return
        home = self._homes.get((delivery.store, message.dst))
        if chooser.ordered:
            time.touch(("link", message.src, message.dst, bool(message.type & RESPONSE_FLAG)))
        agent = None if home is None else home.agent
        if home is None or not isinstance(agent, RpcAgent) or delivery.fate is not None:
            self._touch_home(delivery.store, message.dst)
        else:
            self._touch_request(message, home.name)
        super()._arrive(delivery)
        if agent is not None and agent.pool.busy >= agent.pool.size and not chooser.crowded:
            raise CrowdedError(f"all {agent.pool.size} threads of {home} are taken")

    def _touch_request(self, message: Message, worker: str) -> None:
        """What the arrival of a message touches of its worker, but for its call."""
        touch = self._time.touch
        touch(("agent", worker), "read")
        # What an answer touches the table of calls tells.
        if not message.type & RESPONSE_FLAG:
            touch(("request", worker, message.src, message.id))
            touch(("active", worker), "add")
            if self._time.chooser.crowded:
                touch(worker)  # whether it goes on at once depends on who has ended

    def _touch_home(self, store: Store, worker_id: int) -> None:
        home = self._homes.get((store, worker_id))
        if home is None:
            raise NotExplorableError(
                f"worker {worker_id} is no worker of the program: a story has made it"
            )
        self._time.touch(home.name)
        self._time.touch(("agent", home.name))
        self._time.touch(("active", home.name))


class _TouchingLock(SimLock):
    """The lock of a store, which every operation takes."""

    __slots__ = ("_time",)

    def __init__(self, runtime: SimRuntime, time: ChosenTime) -> None:
        super().__init__(runtime, "store")
        self._time = time

    def __enter__(self) -> None:
        self._time.touch(STORE)
        super().__enter__()
