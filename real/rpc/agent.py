"""RpcAgent: sends requests, matches replies, runs handlers, times out, retries, joins.

Behaviour: torch/csrc/distributed/rpc/rpc_agent.cpp and tensorpipe_agent.cpp.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Literal

import torch

from squall.real import tracing
from squall.real.future import Future
from squall.real.ids import WorkerId
from squall.real.process import Process
from squall.real.rpc.call_table import Call, CallTable
from squall.real.rpc.constants import (
    DEFAULT_RPC_TIMEOUT_S,
    RREF_MAX_RETRIES,
    UNSET_RPC_TIMEOUT,
)
from squall.real.rpc.device_copies import all_on_cpu, targets_of
from squall.real.rpc.devices import GroupDevices
from squall.real.rpc.discard import carries_references, discard_message, take_back
from squall.real.rpc.errors import RpcError
from squall.real.rpc.in_flight import GroupJoin, InFlight
from squall.real.rpc.message import Message
from squall.real.rpc.message_type import RESPONSE_FLAG, MessageType
from squall.real.rpc.options import DeviceMap
from squall.real.rpc.replies import error_text
from squall.real.rpc.retries import Retried
from squall.real.rpc.store import Store
from squall.real.rpc.task_pool import TaskPool
from squall.real.rpc.time_limit import seconds
from squall.real.rpc.worker_info import Membership, WorkerInfo
from squall.real.streams import current_streams, on_streams, pool_streams, wait_for_streams

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
#: how many requests are remembered, to tell a copy of one from another
_SEEN_MAX = 65_536


def _exception(text: str) -> Message:
    return Message(_EXCEPTION, text.encode("utf-8", "surrogatepass"), about=(text[:200],))


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
        #: where this worker's devices go on others, by the name of the other, and where what comes
        #: from them goes back to
        self.device_maps: dict[str, DeviceMap] = {}
        self.reverse_device_maps: dict[str, DeviceMap] = {}
        self.devices: tuple[torch.device, ...] = ()
        self._has_maps = False
        self.rpc_timeout_s = seconds(rpc_timeout_s)
        self._runtime = worker.runtime
        self._world = worker.world
        self._group = group if group is not None else store
        self.members = members
        self._in_flight = InFlight(worker)
        self._join = GroupJoin(self._in_flight, store)
        self._calls = CallTable(worker, self._in_flight)
        #: the last requests that came, by sender and id: the copies of one are one request
        self._seen: dict[tuple[int, int], None] = {}
        #: requests that wait to be sent again
        self.retries: dict[Retried, None] = {}
        self.pool = TaskPool(worker.runtime, worker, num_worker_threads)
        if worker.tracer.enabled:
            worker.tracer.made(self)

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

    def use_devices(self, maps: GroupDevices) -> None:
        """Send tensors by these maps from now on."""
        self.device_maps = maps.maps
        self.reverse_device_maps = maps.reverse_maps
        self.devices = maps.devices
        self._has_maps = bool(maps.maps or maps.reverse_maps)

    def way_back(self, peer: WorkerId, *, request: bool) -> DeviceMap:
        """Where gradients of the tensors that a request or a response of ``peer`` brought go there."""
        name = self.get_worker_info(peer).name
        return (self.reverse_device_maps if request else self.device_maps).get(name, {})

    def _put_on_devices(
        self,
        message: Message,
        device_map: DeviceMap | None,
        kind: Literal["Request", "Response"],
    ) -> None:
        """Say where the tensors of a message go. Raises RuntimeError where they may not."""
        name = self.get_worker_info(message.dst).name
        if device_map is None:
            maps = self.device_maps if kind == "Request" else self.reverse_device_maps
            device_map = maps.get(name, {})
        if device_map or not all_on_cpu(message.tensors):
            message.targets = targets_of(message.tensors, device_map, kind=kind, destination=name)

    # -- life ---------------------------------------------------------------------------

    def start(self) -> None:
        self._world.attach(self._group, self.info.id, self.receive, self.peer_lost)
        self.is_running = True

    def shutdown(self) -> None:
        """Stop at once: retries first, then what is pending. Idempotent."""
        if not self.is_running:
            return
        self.is_running = False
        with self._in_flight.lock:
            retries = []
            while self.retries:
                with contextlib.suppress(KeyError):  # another thread has sent the last one
                    retries.append(self.retries.popitem()[0])
            calls = self._calls.take_all()
        for retry in reversed(retries):
            retry.stop()
        self._world.detach(self._group, self.info.id)
        for call in calls:
            self._calls.fail(call, RpcError("RPC agent is shutting down"))

    def abandon(self) -> None:
        """The process is gone: send and receive nothing more; the peers see connections close."""
        if self.is_running:
            self.is_running = False
            self._world.detach(self._group, self.info.id)

    def sync(self) -> None:
        """Nothing to wait for: messages are handed to the network as they are sent."""

    def join(self, shutdown: bool = False, timeout: float = 0) -> None:
        """Block until no call is in flight between any two workers of the group.

        ``timeout`` in seconds for each wait, 0 for none. In a group that is not static, only this
        worker's own calls count. Raises RuntimeError and StoreTimeoutError.
        """
        if not self.is_static_group:
            self._in_flight.wait_for_none(timeout)
            return
        members = len(self.members)
        self._join.wait(members, timeout)
        if shutdown:
            self.store.barrier("join/shutdown", members, timeout or None)

    @property
    def calls_made(self) -> int:
        """How many requests it has sent."""
        return self._in_flight.ever_made

    def told_of_users(self) -> None:
        """The owners of users that are gone have been told: :meth:`join` may go on."""
        self._in_flight.told()

    # -- sending ------------------------------------------------------------------------

    def send(
        self,
        to: WorkerId,
        message: Message,
        timeout_s: float = UNSET_RPC_TIMEOUT,
        *,
        late_s: float | None = None,
        late: Callable[[], None] | None = None,
        device_map: DeviceMap | None = None,
    ) -> Future[Message]:
        """Send a request; the future holds the reply.

        ``device_map``: where tensors go on ``to``; None: by this worker's map for it.

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
        message.src = self.info.id
        message.dst = to
        if message.tensors and (self._has_maps or not all_on_cpu(message.tensors)):
            self._put_on_devices(message, device_map, "Request")
        if timeout_s == UNSET_RPC_TIMEOUT:
            timeout_s = self.rpc_timeout_s
        call = self._calls.begin(to, message, timeout_s, late_s, late)
        try:
            self._world.send(self._group, message)
        except ConnectionError as error:
            take_back(self.worker, to, message)
            taken = self._calls.take(call.id)
            if taken is not None:
                self._calls.fail(taken, RpcError(str(error)))
        except BaseException:
            self._calls.give_up(call)
            raise
        self._end_if_over(call)
        return call.future

    def _end_if_over(self, call: Call) -> None:
        """A call that began while the agent was shut down may have been too late for its table."""
        if not self.is_running:
            taken = self._calls.take(call.id)
            if taken is not None:
                self._calls.fail(taken, RpcError("RPC agent is shutting down"))

    def answered_by_another_copy(self, id: int, reply: Message) -> None:
        """End a call by the answer to another one with the same request."""
        self._calls.answered_by_another_copy(id, reply)

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
        tracer = self.worker.tracer
        if tracer.enabled:
            tracer.made(message)
            for tensor in message.tensors:
                tracer.made(tensor)
        if message.type & RESPONSE_FLAG:
            call = self._calls.take(message.id)
            if call is not None:
                # Not through the pool, as in torch: the replies that its threads wait for would
                # be behind them in the queue, where no timeout finds them.
                self._runtime.spawn(
                    self._calls.complete,
                    call,
                    message,
                    name="reply",
                    worker=self.worker,
                    cause=message.number,
                )
            elif self._calls.is_late(message.id) and carries_references(message.payload):
                self.pool.submit(
                    message.number, "late reply", discard_message, self.worker, message
                )
            return
        if not self.is_running:
            return
        seen, key = self._seen, (message.src, message.id)
        if key in seen:
            if tracer.enabled:
                tracer.emit(tracing.DUPLICATE_IGNORED, message.src, message.type._name_, message.id)
            return
        seen[key] = None
        if len(seen) > _SEEN_MAX:
            del seen[next(iter(seen))]
        with self._in_flight.lock:
            self._in_flight.served += 1
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
        # Shut down between arrival and now; by now the worker may be in another group, whose tables
        # know nothing of what the request is about.
        if callback is None or self.worker.agent is not self:
            self._in_flight.served_one_less()
            return
        if self.devices:
            request.streams = pool_streams(self.devices, request.streams)
            with on_streams(request.streams):
                reply = callback.process_message(request)
                reply.add_callback(lambda reply: self._reply_on_streams(request, reply))
            return
        callback.process_message(request).add_callback(lambda reply: self._reply(request, reply))

    def _reply_on_streams(self, request: Message, outcome: Future[Message]) -> None:
        """Reply from the streams of the request, after what the reply was completed on, if that is
        another task's."""
        wait_for_streams(request.streams, current_streams().values())
        with on_streams(request.streams):
            self._reply(request, outcome)

    def _reply(self, request: Message, outcome: Future[Message]) -> None:
        error = outcome.error
        try:
            if error is not None:
                self._answer(request, _exception(str(error)))
                return
            try:
                self._answer(request, outcome.raw_value())
            except ConnectionError:
                raise
            except Exception as failure:  # a tensor that cannot be copied, say
                self._answer(request, _exception(error_text(failure)))
        except ConnectionError as lost:
            caller = self.members.by_id.get(request.src)
            logger.warning(
                "RPC agent for %s encountered error when sending response to request #%d to %s: %s",
                *(self.info.name, request.id, caller.name if caller else request.src, lost),
            )
        finally:
            context = self.worker.rref_context
            if context is not None and context.leaving:
                context.give_back_users()
            self._in_flight.served_one_less()
            if self.worker.interceptor is not None:
                self.worker.interceptor.handled(self.worker, request)

    def _answer(self, request: Message, reply: Message) -> None:
        """Send a reply; what its making has left here goes with it if it does not leave.

        Raises ConnectionError, and whatever keeps a message from being written.
        """
        reply.id = request.id
        reply.src = self.info.id
        reply.dst = request.src
        if self.worker.tracer.enabled:
            self.worker.tracer.made(reply)
        try:
            if reply.tensors and (self._has_maps or not all_on_cpu(reply.tensors)):
                self._put_on_devices(reply, None, "Response")
            if self.is_running:
                self._world.send(self._group, reply)
                return
        except BaseException:
            take_back(self.worker, reply.dst, reply)
            raise
        take_back(self.worker, reply.dst, reply)

    # -- about other workers ------------------------------------------------------------

    def is_there(self, worker_id: WorkerId, incarnation: int) -> bool:
        """Whether a process of a rank, counted from 0, is in the group."""
        return self._world.process_of(self._group, worker_id) == incarnation

    def peer_lost(self, peer: WorkerId, reason: str, ended: int | None = None) -> None:
        """Fail every call to a worker whose connection broke.

        ``ended``: the process behind it is gone, and of its rank it was this one, counted from 0;
        None: it is there.
        """
        self._calls.peer_lost(peer, reason)
        if ended is None or not self.is_running:
            return
        if self.worker.rref_context is not None:
            self.worker.rref_context.process_ended(peer)
        if self.worker.container is not None:
            self.worker.container.process_ended(peer, ended)

    # -- looking ------------------------------------------------------------------------

    def get_metrics(self) -> dict[str, str]:
        # Tasks take turns by themselves: there is no lock of the interpreter to wait for.
        waits = {"agent.gil_average_wait_time_us": "0"} if self.gil_profiling else {}
        return {
            **waits,
            "agent.thread_pool_size": str(self.pool.size),
            "agent.num_idle_threads": str(self.pool.size - self.pool.busy),
            "agent.client_active_calls": str(self._in_flight.made),
            "agent.server_active_calls": str(self._in_flight.served),
            "agent.server_active_async_calls": "0",
        }

    def get_debug_info(self) -> dict[str, str]:
        return self.get_metrics()
