"""The calls that are in flight, and waiting until there are none (RpcAgent::join in
torch/csrc/distributed/rpc/tensorpipe_agent.cpp)."""

from __future__ import annotations

import itertools

from squall.real.process import Process
from squall.real.rpc.store import Store


class InFlight:
    """How many calls of one worker are in flight. Both counts change under :attr:`lock`.

    A message by which an owner is to be told of a user that is gone is in flight before it is
    sent: PyTorch sends it in the destructor, where here a task does so at once.
    """

    __slots__ = ("_quiet", "_worker", "ever_made", "lock", "made", "served")

    def __init__(self, worker: Process) -> None:
        self._worker = worker
        self.lock = worker.runtime.lock("agent")
        self._quiet = worker.runtime.condition(self.lock, "calls in flight")
        #: calls whose future has not finished, callbacks included
        self.made = 0
        #: calls made since the group began
        self.ever_made = 0
        #: requests that have not been answered
        self.served = 0

    def made_one_less(self) -> None:
        """A call of this worker is over."""
        with self.lock:
            self.made -= 1
            if not self.made and self.is_quiet():
                self._quiet.notify_all()

    def served_one_less(self) -> None:
        """A request has been answered, or never will be."""
        with self.lock:
            self.served -= 1
            if not self.made and self.is_quiet():
                self._quiet.notify_all()

    def told(self) -> None:
        """The owners of users that are gone have been told, or never will be."""
        with self.lock:
            if self.is_quiet():
                self._quiet.notify_all()

    def wait_for_none(self, timeout: float) -> None:
        """Block until there are none; RuntimeError after ``timeout`` seconds, 0 for no limit."""
        with self.lock:
            if not self._quiet.wait_for(self.is_quiet, timeout or None):
                raise RuntimeError(f"RPC join timed out after {timeout} s")

    def is_quiet(self) -> bool:
        return self.count() == 0

    def count(self) -> int:
        """How many calls are in flight, or are about to be."""
        references = self._worker.rref_context
        return self.made + self.served + (0 if references is None else references.to_be_told)


class GroupJoin:
    """Waits, together with all other workers of a group, until none of them has a call in flight.

    That one worker has none is not enough, since a peer's reply or clean-up may start new calls:
    the counts of all workers are summed in rounds. Nor is one round enough whose sum is zero. The
    counts are read at different moments, and a chain of calls that nobody waits for may hop past
    the readers: it is on a worker that has been read when it comes from one that has not. Torch's
    agents hold their locks until the sum is known (callCountMutex_). Here two rounds in a row have
    to find no call, and the same number of calls ever made (Mattern, Algorithms for Distributed
    Termination Detection, 1987): then no worker made one between its two readings, so that at any
    moment that lies between the two rounds every call had been made before the first of them, which
    has found none.
    """

    def __init__(self, in_flight: InFlight, store: Store) -> None:
        self._in_flight = in_flight
        self._store = store
        self._rounds = itertools.count()

    def wait(self, members: int, timeout: float) -> None:
        """``timeout`` seconds for each wait, 0 for no limit. Raises RuntimeError and
        StoreTimeoutError."""
        in_flight = self._in_flight
        limit = timeout or None
        before: int | None = None
        while True:
            in_flight.wait_for_none(timeout)
            # The first barrier makes sure that all have been quiet once; the counts are read
            # between the two, and a call that any worker still has shows up in the sum.
            round = next(self._rounds)
            self._store.barrier(f"join/{round}/quiet", members, limit)
            active, ever_made = in_flight.count(), in_flight.ever_made
            self._store.add(f"join/{round}/active", active)
            self._store.add(f"join/{round}/made", ever_made)
            self._store.barrier(f"join/{round}/counted", members, limit)
            made = self._store.get(f"join/{round}/made")
            if self._store.get(f"join/{round}/active"):
                before = None
            elif made == before:
                return
            else:
                before = made
