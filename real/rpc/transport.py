"""What carries messages between workers, as an agent sees it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING

from squall.real.rpc.store import Store
from squall.real.runtime import Runtime, TaskOwner

if TYPE_CHECKING:
    from squall.real.rpc.message import Message

Receive = Callable[["Message"], None]
#: told the id of a peer whose connection is gone, why, and which process of that id has ended
#: (Worker.incarnation), None if only the connection did
PeerLost = Callable[[int, str, int | None], None]


class Transport(ABC):
    """A network and the store that workers meet at."""

    #: what init methods begin with that name a store of this world alone: "queue" for queue://any
    schemes: tuple[str, ...] = ()
    #: all connections are there from the start: a new group needs no call that opens them
    connected: bool = False

    @abstractmethod
    def store(self, init_method: str) -> Store:
        """The store behind an init method: the same for everybody who names the same."""

    @abstractmethod
    def leave(self, worker: TaskOwner) -> None:
        """The process of ``worker`` has ended: a store where nobody is left is forgotten."""

    @abstractmethod
    def attach(self, store: Store, worker_id: int, receive: Receive, peer_lost: PeerLost) -> None:
        """Deliver messages for ``worker_id`` to ``receive``, which must not block.

        ``store`` names the group that the worker belongs to: ids count within a group.
        """

    @abstractmethod
    def detach(self, store: Store, worker_id: int) -> None: ...

    @abstractmethod
    def process_of(self, store: Store, worker_id: int) -> int | None:
        """Which process of its rank is behind an id (Worker.incarnation); None: there is none."""

    @abstractmethod
    def send(self, store: Store, message: Message) -> float | None:
        """Carry a copy of ``message`` from ``message.src`` to ``message.dst``. Returns when it arrives, None if that
        is not known.

        Raises ConnectionError if nothing can be sent there.
        """


class QueueWorld(Transport):
    """Workers in one process, each with a queue that one task of the runtime empties.

    For :class:`~squall.real.threads.ThreadRuntime`: the smallest network there is.
    """

    schemes = ("queue",)
    connected = True

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._stores: dict[str, Store] = {}
        self._queues: dict[tuple[Store, int], SimpleQueue[Message | None]] = {}
        self._lost: dict[tuple[Store, int], PeerLost] = {}
        self._lock = runtime.lock("stores")

    def store(self, init_method: str) -> Store:
        with self._lock:
            if init_method not in self._stores:
                self._stores[init_method] = Store(self._runtime)
            return self._stores[init_method]

    def leave(self, worker: TaskOwner) -> None:
        """Workers are no processes here: stores last as long as the world."""

    def attach(self, store: Store, worker_id: int, receive: Receive, peer_lost: PeerLost) -> None:
        self._lost[store, worker_id] = peer_lost
        queue: SimpleQueue[Message | None] = SimpleQueue()
        self._queues[store, worker_id] = queue

        def deliver() -> None:
            while (message := queue.get()) is not None:
                receive(message)

        self._runtime.spawn(deliver, name=f"network to {worker_id}")

    def detach(self, store: Store, worker_id: int) -> None:
        queue = self._queues.pop((store, worker_id), None)
        if queue is not None:
            queue.put(None)
        self._lost.pop((store, worker_id), None)
        for (group, _), peer_lost in self._lost.copy().items():
            if group is store:
                peer_lost(worker_id, f"the connection to worker {worker_id} was closed", 0)

    def process_of(self, store: Store, worker_id: int) -> int | None:
        return 0 if (store, worker_id) in self._queues else None

    def send(self, store: Store, message: Message) -> None:
        queue = self._queues.get((store, message.dst))
        if queue is None:
            raise ConnectionError(f"worker {message.dst} is not connected")
        queue.put(message.copy())
