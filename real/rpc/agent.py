"""RpcAgent: sends requests, matches replies, runs handlers, times out, retries, joins.

Behaviour: torch/csrc/distributed/rpc/rpc_agent.cpp and tensorpipe_agent.cpp.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable

from squall.real import tracing
from squall.real.future import Future
from squall.real.ids import PROCESS_ID_BITS, WorkerId
from squall.real.process import Process
from squall.real.rpc.constants import (
    DEFAULT_RPC_TIMEOUT_S,
    NO_RPC_TIMEOUT,
    RREF_MAX_RETRIES,
    UNSET_RPC_TIMEOUT,
)
from squall.real.rpc.discard import carries_references, discard_message, take_back
from squall.real.rpc.errors import RpcError, timeout_error
from squall.real.rpc.message import RESPONSE_FLAG, Message, MessageType
from squall.real.rpc.options import DeviceMap
from squall.real.rpc.retries import Retried
from squall.real.rpc.store import Store
from squall.real.rpc.task_pool import TaskPool
from squall.real.rpc.worker_info import Membership, WorkerInfo
from squall.real.runtime import Timer

logger = logging.getLogger(__name__)

_EXCEPTION = MessageType.EXCEPTION
#: what workers tell each other about contexts and RRefs: handled at once, never waits
_CONTROL = frozenset(
    {
        MessageType.CLEANUP_AUTOGRAD_CONTEXT_REQ,
        MessageType.RREF_USER_DELETE,
        MessageType.RREF_FORK_REQUEST,
        MessageType.RREF_CHILD_ACCEPT,
    }
)
#: how many timed-out calls are remembered
_EXPIRED_MAX = 65_536
#: how many requests are remembered, to tell a copy of one from another
_SEEN_MAX = 65_536


class _Call:
    """A request that waits for its reply."""

    __slots__ = ("future", "id", "late", "timeout_s", "timer", "to")

    def __init__(self, id: int, to: WorkerId, future: Future[Message], timeout_s: float) -> None:
        self.id = id
        self.to = to
        self.future = future
        self.timeout_s = timeout_s
        self.timer: Timer | None = None
        #: called once, if there is no reply for some time
        self.late: Callable[[], None] | None = None


class RpcAgent:
    """One worker's end of the network.

    ``members`` are all workers of the group, this one among them. Nothing is sent before
    :meth:`start` and after :meth:`shutdown`.
    """

    def __init__(
        self,
        worker: Process,
        *,
        info: WorkerInfo,
        store: Store,
        members: Membership,
        num_worker_threads: int,
        rpc_timeout_s: float = DEFAULT_RPC_TIMEOUT_S,
        group: Store | None = None,
        is_static_group: bool = True,
    ) -> None:
        self.worker = worker
        self.info = info
        self.store = store
        self.is_running = False
        self.gil_profiling = False
        #: False for one that workers join and leave at any time
        self.is_static_group = is_static_group
        #: where this worker's devices go on others, by the name of the other
        self.device_maps: dict[str, DeviceMap] = {}
        self.rpc_timeout_s = rpc_timeout_s
        self._runtime = worker.runtime
        self._world = worker.world
        self._group = group if group is not None else store
        self.members = members
        self._ids = itertools.count(worker.incarnation << PROCESS_ID_BITS)
        self._join_rounds = itertools.count()
        self._calls: dict[int, _Call] = {}
        #: calls whose time ran out and whose reply may yet come, with RRefs in it
        self._expired: dict[int, bool] = {}
        #: the last requests that came, by sender and id: the copies of one are one request
        self._seen: dict[tuple[int, int], None] = {}
        #: requests that wait to be sent again
        self.retries: dict[Retried, None] = {}
        self.pool = TaskPool(worker.runtime, worker, num_worker_threads)
        self._lock = worker.runtime.lock("agent")
        self._quiet = worker.runtime.condition(self._lock, "calls in flight")
        #: calls whose future has not finished, callbacks included
        self.client_active_calls = 0
        #: requests that have not been answered
        self.server_active_calls = 0

    # -- workers ------------------------------------------------------------------------

    def get_worker_info(self, to: str | int | WorkerInfo | None = None) -> WorkerInfo:
        """Raises RuntimeError for a name or id that no worker of the group has."""
        if to is None:
            return self.info
        if isinstance(to, WorkerInfo):
            return to
        if isinstance(to, str):
            found = self.members.by_name.get(to)
            what: object = f"name {to}"
        else:
            found = self.members.by_id.get(to)
            what = f"id {to}"
        if found is None:
            raise RuntimeError(
                f"name:{self.info.name},rank:{self.info.id} could not find destination {what}"
            )
        return found

    def get_worker_infos(self) -> list[WorkerInfo]:
        """All workers of the group, by id."""
        return list(self.members.infos)

    def _get_device_map(self, to: WorkerInfo) -> DeviceMap:
        """Where devices of this worker go on ``to``; empty if nobody said."""
        return self.device_maps.get(to.name, {})

    # -- life ---------------------------------------------------------------------------

    def start(self) -> None:
        self._world.attach(self._group, self.info.id, self.receive, self.peer_lost)
        self.is_running = True

    def shutdown(self) -> None:
        """Stop at once: retries first, then what is pending. Idempotent."""
        if not self.is_running:
            return
        self.is_running = False
        with self._lock:
            retries, self.retries = list(self.retries), {}
            calls, self._calls = list(self._calls.values()), {}
        for retry in retries:
            retry.stop()
        self._world.detach(self._group, self.info.id)
        for call in calls:
            self._fail(call, RpcError("RPC agent is shutting down"))

    def abandon(self) -> None:
        """The process is gone: send and receive nothing more; the peers see connections close."""
        if self.is_running:
            self.is_running = False
            self._world.detach(self._group, self.info.id)

    def sync(self) -> None:
        """Nothing to wait for: messages are handed to the network as they are sent."""

    def join(self, shutdown: bool = False, timeout: float = 0) -> None:
        """Block until no call is in flight between any two workers of the group.

        ``timeout`` in seconds, 0 for none. Local silence is not enough, since a peer's reply or
        clean-up may start new calls: the counts of all workers are summed after each round, and
        only a sum of zero ends it. In a group that is not static, only this worker's own calls
        count. Raises StoreTimeoutError.
        """
        limit = timeout or None
        members = len(self.members)
        while True:
            with self._lock:
                if not self._quiet.wait_for(self._is_quiet, limit):
                    raise RuntimeError(f"RPC join timed out after {timeout} s")
            if not self.is_static_group:
                return
            # The first barrier makes sure that all have been quiet once; the counts are read
            # between the two, and a call that any worker still has shows up in the sum.
            round = next(self._join_rounds)
            self.store.barrier(f"join/{round}/quiet", members, limit)
            active = self.client_active_calls + self.server_active_calls
            self.store.add(f"join/{round}/active", active)
            self.store.barrier(f"join/{round}/counted", members, limit)
            if self.store.get(f"join/{round}/active") == 0:
                break
        if shutdown:
            self.store.barrier("join/shutdown", members, limit)

    def _is_quiet(self) -> bool:
        return self.client_active_calls == 0 and self.server_active_calls == 0

    # -- sending ------------------------------------------------------------------------

    def send(
        self,
        to: WorkerId,
        message: Message,
        timeout_s: float = UNSET_RPC_TIMEOUT,
        *,
        late_s: float | None = None,
        late: Callable[[], None] | None = None,
    ) -> Future[Message]:
        """Send a request; the future holds the reply.

        ``timeout_s``: -1 the agent's default, 0 none. ``late`` is called if there is no reply after
        ``late_s`` seconds and the call has not ended. The future fails with :class:`RpcError` if
        the reply is an exception, does not come in time, or the connection breaks. Raises
        RuntimeError if the agent does not run.
        """
        if not self.is_running:
            raise RuntimeError(
                f"Node {self.info.id}tried to send() a message of type {int(message.type)} "
                "but RPC is no longer running on this node."
            )
        id = next(self._ids)
        message.id = id
        message.src = self.info.id
        message.dst = to
        if timeout_s == UNSET_RPC_TIMEOUT:
            timeout_s = self.rpc_timeout_s
        future: Future[Message] = Future(runtime=self._runtime, what=message)
        call = _Call(id, to, future, timeout_s)
        with self._lock:
            self._calls[id] = call
            self.client_active_calls += 1
        tracer = self.worker.tracer
        if tracer.enabled:
            tracer.emit(tracing.CALL_STARTED, id, to, message.type._name_, timeout_s)
        if late_s is not None and (timeout_s == NO_RPC_TIMEOUT or late_s < timeout_s):
            call.late = late
            call.timer = self._runtime.call_later(late_s, lambda: self._be_late(id, late_s))
        elif timeout_s != NO_RPC_TIMEOUT:
            # A negative limit is over at once, as in torch; time does not run backwards for it.
            call.timer = self._runtime.call_later(max(timeout_s, 0.0), lambda: self._expire(id))
        try:
            self._world.send(self._group, message)
        except ConnectionError as error:
            take_back(self.worker, message)
            taken = self._take(id)
            if taken is not None:
                self._fail(taken, RpcError(str(error)))
        return future

    def send_with_retries(
        self, to: WorkerId, message: Message, max_retries: int = RREF_MAX_RETRIES
    ) -> Future[Message]:
        """Send until answered without error, at most ``max_retries`` times more.

        Delivery is at least once: the receiver's handler must be idempotent. See
        :mod:`squall.real.rpc.retries`. Raises what :meth:`send` raises at the first attempt.
        """
        retried = Retried(self, to, message, max_retries)
        retried.attempt()
        return retried.future

    # -- receiving ----------------------------------------------------------------------

    def receive(self, message: Message) -> None:
        """Take a message off the network; called by whatever carries it, never blocks."""
        if message.type & RESPONSE_FLAG:
            call = self._take(message.id)
            if call is not None:
                # Not through the pool, as in torch: the replies that its threads wait for would
                # be behind them in the queue, where no timeout finds them.
                self._runtime.spawn(
                    self._complete,
                    call,
                    message,
                    name="reply",
                    worker=self.worker,
                    cause=message.number,
                )
            elif self._is_late(message.id) and carries_references(message.payload):
                self.pool.submit(
                    message.number, "late reply", discard_message, self.worker, message
                )
            return
        if not self.is_running:
            return
        seen, key = self._seen, (message.src, message.id)
        if key in seen:
            if self.worker.tracer.enabled:
                self.worker.tracer.emit(
                    tracing.DUPLICATE_IGNORED, message.src, message.type._name_, message.id
                )
            return
        seen[key] = None
        if len(seen) > _SEEN_MAX:
            del seen[next(iter(seen))]
        with self._lock:
            self.server_active_calls += 1
        if message.type in _CONTROL:
            # Not through the pool, as in torch: its threads may be waiting for what this says.
            self._runtime.spawn(
                self._handle,
                message,
                name=message.type._name_,
                worker=self.worker,
                cause=message.number,
            )
            return
        self.pool.submit(message.number, message.type._name_, self._handle, message)

    def _handle(self, request: Message) -> None:
        callback = self.worker.request_callback
        if callback is None:  # shut down between arrival and now
            self._served()
            return
        callback.process_message(request).add_callback(lambda reply: self._reply(request, reply))

    def _reply(self, request: Message, outcome: Future[Message]) -> None:
        error = outcome.error
        if error is not None:
            text = str(error)
            reply = Message(_EXCEPTION, text.encode("utf-8", "surrogatepass"), about=(text[:200],))
        else:
            reply = outcome.raw_value()
        reply.id = request.id
        reply.src = self.info.id
        reply.dst = request.src
        try:
            if self.is_running:
                self._world.send(self._group, reply)
        except ConnectionError:
            take_back(self.worker, reply)
            logger.warning("%s could not answer %r", self.info, request)
        finally:
            context = self.worker.rref_context
            if context is not None and context.leaving:
                context.give_back_users()
            self._served()
            if self._world.handled is not None:
                self._world.handled(request)

    def _served(self) -> None:
        with self._lock:
            self.server_active_calls -= 1
            if self.server_active_calls == 0 and self.client_active_calls == 0:
                self._quiet.notify_all()

    # -- completing calls ---------------------------------------------------------------

    def _take(self, id: int) -> _Call | None:
        """Whoever takes a call completes it: reply, timeout and broken pipe race for it."""
        call = self._calls.pop(id, None)
        if call is not None and call.timer is not None:
            call.timer.cancel()
        return call

    def _complete(self, call: _Call, message: Message) -> None:
        if message.type == _EXCEPTION:
            text = message.payload.decode("utf-8", "surrogatepass")
            self._finish(call, None, RpcError(text))
        else:
            self._finish(call, message, None)
        if self._world.handled is not None:
            self._world.handled(message)

    def _be_late(self, id: int, late_s: float) -> None:
        if id in self._calls:
            self._runtime.spawn(self._wait_on, id, late_s, name="late", worker=self.worker)

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

    def answered_by_another_copy(self, id: int, reply: Message) -> None:
        """End a call by the answer to another one with the same request."""
        call = self._take(id)
        if call is not None:
            self._finish(call, reply, None)

    def _expire(self, id: int) -> None:
        call = self._take(id)
        if call is not None:
            self._remember_expired(id)
            # Not through the pool: a pool full of waiters must not hold back their timeouts.
            self._runtime.spawn(
                self._finish,
                call,
                None,
                timeout_error(call.timeout_s),
                name="timeout",
                worker=self.worker,
            )

    def is_there(self, worker_id: WorkerId, incarnation: int) -> bool:
        """Whether a process of a rank, counted from 0, is in the group."""
        return self._world.process_of(self._group, worker_id) == incarnation

    def _is_late(self, id: int) -> bool:
        """Whether a reply is to a call that was given up, or that an earlier process made."""
        return self._expired.pop(id, False) or id >> PROCESS_ID_BITS < self.worker.incarnation

    def _remember_expired(self, id: int) -> None:
        self._expired[id] = True
        if len(self._expired) > _EXPIRED_MAX:
            del self._expired[next(iter(self._expired))]

    def _fail(self, call: _Call, error: RpcError) -> None:
        if call.timer is not None:
            call.timer.cancel()
        self._runtime.spawn(self._finish, call, None, error, name="failed call", worker=self.worker)

    def peer_lost(self, peer: WorkerId, reason: str, ended: int | None = None) -> None:
        """Fail every call to a worker whose connection broke.

        ``ended``: the process behind it is gone, and of its rank it was this one, counted from 0;
        None: it is there.
        """
        with self._lock:
            ids = [call.id for call in self._calls.values() if call.to == peer]
        for id in ids:
            call = self._take(id)
            if call is not None:
                self._remember_expired(id)  # its reply may come over another connection
                self._fail(call, RpcError(reason))
        if ended is None or not self.is_running:
            return
        if self.worker.rref_context is not None:
            self.worker.rref_context.process_ended(peer)
        if self.worker.container is not None:
            self.worker.container.process_ended(peer, ended)

    def _finish(self, call: _Call, message: Message | None, error: RpcError | None) -> None:
        tracer = self.worker.tracer
        if tracer.enabled:
            outcome = "ok" if error is None else "error"
            if error is not None and str(error).startswith("RPCErr:1:"):
                outcome = "timeout"
            tracer.emit(tracing.CALL_ENDED, call.id, call.to, outcome)
        try:
            if error is not None:
                call.future.try_fail(error)
            elif message is not None:
                call.future.try_complete(message)
        finally:
            context = self.worker.rref_context
            if context is not None and context.leaving:
                context.give_back_users()
            # After the callbacks, which may have made calls: join must not see a gap.
            with self._lock:
                self.client_active_calls -= 1
                if self.client_active_calls == 0 and self.server_active_calls == 0:
                    self._quiet.notify_all()

    # -- looking ------------------------------------------------------------------------

    def get_metrics(self) -> dict[str, str]:
        # Tasks take turns by themselves: there is no lock of the interpreter to wait for.
        waits = {"agent.gil_average_wait_time_us": "0"} if self.gil_profiling else {}
        return {
            **waits,
            "agent.thread_pool_size": str(self.pool.size),
            "agent.num_idle_threads": str(self.pool.size - self.pool.busy),
            "agent.client_active_calls": str(self.client_active_calls),
            "agent.server_active_calls": str(self.server_active_calls),
            "agent.server_active_async_calls": "0",
        }

    def get_debug_info(self) -> dict[str, str]:
        return self.get_metrics()
