"""The calls of one agent that wait for their replies, and how each of them ends.

A reply, a timeout and a broken connection race for a call: whoever takes it out of the table
completes it. (torch/csrc/distributed/rpc/tensorpipe_agent.cpp: pendingResponseMessage_,
timeoutMap_, handleClientError)
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator

from squall.real import tracing
from squall.real.future import Future
from squall.real.ids import PROCESS_ID_BITS, WorkerId
from squall.real.process import Process, devices_of
from squall.real.rpc.constants import NO_RPC_TIMEOUT
from squall.real.rpc.errors import RpcError, timeout_error
from squall.real.rpc.in_flight import InFlight
from squall.real.rpc.message import Message
from squall.real.rpc.message_type import MessageType
from squall.real.runtime import Timer
from squall.real.streams import on_streams

_EXCEPTION = MessageType.EXCEPTION
#: how many timed-out calls are remembered
_EXPIRED_MAX = 65_536
#: where a process keeps the numbers of its calls
_IDS = "call numbers"


class Call:
    """A request that waits for its reply."""

    __slots__ = ("__weakref__", "future", "id", "late", "timeout_s", "timer", "to")

    def __init__(self, id: int, to: WorkerId, future: Future[Message], timeout_s: float) -> None:
        self.id = id
        self.to = to
        self.future = future
        self.timeout_s = timeout_s
        self.timer: Timer | None = None
        #: called once, if there is no reply for some time
        self.late: Callable[[], None] | None = None


class CallTable:
    """All calls of one agent that have not ended, by id. ``in_flight`` counts them."""

    def __init__(self, worker: Process, in_flight: InFlight) -> None:
        self._worker = worker
        self._runtime = worker.runtime
        self._in_flight = in_flight
        # Of the process, not of the agent: a process that joins group after group makes no two
        # calls of one number.
        first = worker.incarnation << PROCESS_ID_BITS
        self._ids: Iterator[int] = worker.locals.setdefault(_IDS, itertools.count(first))
        self._calls: dict[int, Call] = {}
        #: calls whose time ran out and whose reply may yet come, with RRefs in it
        self._expired: dict[int, bool] = {}

    # -- beginning ----------------------------------------------------------------------

    def begin(
        self,
        to: WorkerId,
        message: Message,
        timeout_s: float,
        late_s: float | None,
        late: Callable[[], None] | None,
    ) -> Call:
        """Give a request its id, and note that a reply is waited for; see :meth:`RpcAgent.send`.

        ``timeout_s``: 0 for none.
        """
        id = message.id = next(self._ids)
        call = Call(id, to, self._future(message), timeout_s)
        in_flight = self._in_flight
        with in_flight.lock:
            self._calls[id] = call
            in_flight.made += 1
            in_flight.ever_made += 1
        tracer = self._worker.tracer
        if tracer.enabled:
            about = message.about
            tracer.emit(tracing.CALL_STARTED, id, to, message.type._name_, timeout_s, about)
            tracer.made(call)
            tracer.made(message)
        if late_s is not None and (timeout_s == NO_RPC_TIMEOUT or late_s < timeout_s):
            call.late = late
            call.timer = self._runtime.call_later(late_s, lambda: self._be_late(id, late_s))
        elif timeout_s != NO_RPC_TIMEOUT:
            # A negative limit is over at once, as in torch; time does not run backwards for it.
            call.timer = self._runtime.call_later(max(timeout_s, 0.0), lambda: self._expire(id))
        return call

    def _future(self, message: Message) -> Future[Message]:
        return Future(runtime=self._runtime, what=message, devices=devices_of(self._worker))

    # -- ending -------------------------------------------------------------------------

    def take(self, id: int) -> Call | None:
        """Take a call out of the table, to complete it; None if it is not there any more."""
        call = self._calls.pop(id, None)
        if call is not None and call.timer is not None:
            call.timer.cancel()
        return call

    def complete(self, call: Call, message: Message) -> None:
        """A call that was taken has been answered."""
        if message.type == _EXCEPTION:
            text = message.payload.decode("utf-8", "surrogatepass")
            self._finish(call, None, RpcError(text))
        else:
            self._finish(call, message, None)
        worker = self._worker
        if worker.interceptor is not None:
            worker.interceptor.handled(worker, message)

    def fail(self, call: Call, error: RpcError) -> None:
        """A call that was taken will not be answered; on a task of its own."""
        if call.timer is not None:
            call.timer.cancel()
        self._runtime.spawn(
            self._finish, call, None, error, name="failed call", worker=self._worker
        )

    def give_up(self, call: Call) -> None:
        """The request of a call could not be made: whoever makes it hears why."""
        if self.take(call.id) is not None:
            tracer = self._worker.tracer
            if tracer.enabled:
                tracer.emit(tracing.CALL_ENDED, call.id, call.to, "error")
            self._in_flight.made_one_less()

    def take_all(self) -> list[Call]:
        """For whoever holds the lock: the calls that have not ended, for the caller to fail."""
        taken = []
        while self._calls:
            with contextlib.suppress(KeyError):  # another thread has taken the last one
                taken.append(self._calls.popitem()[1])
        return taken[::-1]

    def peer_lost(self, peer: WorkerId, reason: str) -> None:
        """Fail every call to a worker whose connection broke."""
        with self._in_flight.lock:
            calls = list(self._calls.values())  # as they are now: others end without the lock
            ids = [call.id for call in calls if call.to == peer]
        for id in ids:
            call = self.take(id)
            if call is not None:
                self._remember_expired(id)  # its reply may come over another connection
                self.fail(call, RpcError(reason))

    def answered_by_another_copy(self, id: int, reply: Message) -> None:
        """End a call by the answer to another one with the same request."""
        call = self.take(id)
        if call is not None:
            self._finish(call, reply, None)

    def _finish(self, call: Call, message: Message | None, error: RpcError | None) -> None:
        tracer = self._worker.tracer
        if tracer.enabled:
            outcome = "ok" if error is None else "error"
            if error is not None and str(error).startswith("RPCErr:1:"):
                outcome = "timeout"
            tracer.emit(tracing.CALL_ENDED, call.id, call.to, outcome)
        try:
            if error is not None:
                call.future.try_fail(error)
            elif message is not None:
                with on_streams(message.streams):
                    call.future.try_complete(message)
        finally:
            context = self._worker.rref_context
            if context is not None and context.leaving:
                context.give_back_users()
            # After the callbacks, which may have made calls: join must not see a gap.
            self._in_flight.made_one_less()

    # -- time ---------------------------------------------------------------------------

    def _be_late(self, id: int, late_s: float) -> None:
        if id in self._calls:
            self._runtime.spawn(self._wait_on, id, late_s, name="late", worker=self._worker)

    def _wait_on(self, id: int, waited_s: float) -> None:
        """Say that a call is late, and wait for the rest of its time."""
        call = self._calls.get(id)
        if call is None:
            return
        if call.timeout_s != NO_RPC_TIMEOUT:
            left_s = call.timeout_s - waited_s
            call.timer = self._runtime.call_later(left_s, lambda: self._expire(id))
        late, call.late = call.late, None
        if late is not None:
            late()

    def _expire(self, id: int) -> None:
        call = self.take(id)
        if call is not None:
            self._remember_expired(id)
            # Not through the pool: a pool full of waiters must not hold back their timeouts.
            self._runtime.spawn(
                self._finish,
                call,
                None,
                timeout_error(call.timeout_s),
                name="timeout",
                worker=self._worker,
            )

    def is_late(self, id: int) -> bool:
        """Whether a reply is to a call that was given up, or that an earlier process made."""
        return self._expired.pop(id, False) or id >> PROCESS_ID_BITS < self._worker.incarnation

    def _remember_expired(self, id: int) -> None:
        self._expired[id] = True
        expired = self._expired
        if len(expired) > _EXPIRED_MAX:
            with contextlib.suppress(RuntimeError, KeyError):  # another thread forgets one, too
                del expired[next(iter(expired))]
