"""A process as its parts see it: what they share, and what they ask of each other.

Each part (agent, tables of RRefs, autograd contexts) is made with its process and finds the others
there. A part that is built on another one knows its class; where two need each other, the one
below knows of the other what the protocols here say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch

from squall.real import tracing
from squall.real.future import Future
from squall.real.ids import AutogradMessageId, ContextId, WorkerId
from squall.real.interceptor import Interceptor
from squall.real.rpc.constants import RREF_MAX_RETRIES, UNSET_RPC_TIMEOUT
from squall.real.rpc.message import Message
from squall.real.rpc.options import DeviceMap
from squall.real.rpc.transport import Transport
from squall.real.rpc.worker_info import WorkerInfo
from squall.real.runtime import Runtime


class ModuleSpace(Protocol):
    """The process's own copies of user modules."""

    def owns(self, module: str) -> bool: ...

    def find(self, module: str, qualname: str) -> Any:
        """Raises AttributeError or ImportError as ordinary import would."""


class Agent(Protocol):
    """Sends requests; see :class:`squall.real.rpc.agent.RpcAgent`."""

    info: WorkerInfo
    is_running: bool
    #: those of this worker that tensors of messages may be on
    devices: tuple[torch.device, ...]

    def way_back(self, peer: WorkerId, *, request: bool) -> DeviceMap:
        """Where gradients of the tensors that a request or a response of ``peer`` brought go there,
        by the device that these arrived on."""

    def get_worker_info(self, to: str | int | WorkerInfo | None = None) -> WorkerInfo: ...

    def get_worker_infos(self) -> list[WorkerInfo]: ...

    def told_of_users(self) -> None: ...

    def is_there(self, worker_id: WorkerId, incarnation: int) -> bool: ...

    def send(
        self,
        to: WorkerId,
        message: Message,
        timeout_s: float = UNSET_RPC_TIMEOUT,
        *,
        late_s: float | None = None,
        late: Callable[[], None] | None = None,
        device_map: DeviceMap | None = None,
    ) -> Future[Message]: ...

    def send_with_retries(
        self, to: WorkerId, message: Message, max_retries: int = RREF_MAX_RETRIES
    ) -> Future[Message]: ...


class RequestHandler(Protocol):
    """Answers requests; see :class:`squall.real.rpc.request_callback.RequestCallback`."""

    def process_message(self, request: Message) -> Future[Message]: ...


class References(Protocol):
    """The RRefs of a process; see :class:`squall.real.rpc.rref_context.RRefContext`."""

    leaving: bool

    @property
    def to_be_told(self) -> int:
        """How many owners are still to be told of a user that is gone."""

    def give_back_users(self) -> None: ...

    def undo_fork(self, data: tuple[Any, ...]) -> None: ...

    def discard_fork(self, data: tuple[Any, ...]) -> None: ...

    def process_ended(self, worker_id: WorkerId) -> None: ...


class Contexts(Protocol):
    """The autograd contexts of a process; see
    :class:`squall.real.autograd.container.DistAutogradContainer`."""

    def take_back(
        self, context_id: ContextId, message_id: AutogradMessageId, to: WorkerId
    ) -> None: ...

    def process_ended(self, worker_id: WorkerId, incarnation: int) -> None: ...


class Process:
    """What is private to one process and shared by all its parts."""

    __slots__ = (
        "__weakref__",
        "agent",
        "container",
        "id",
        "incarnation",
        "interceptor",
        "locals",
        "modules",
        "name",
        "request_callback",
        "rpc_state",
        "rref_context",
        "runtime",
        "shut_down",
        "tracer",
        "world",
    )

    def __init__(
        self,
        runtime: Runtime,
        world: Transport,
        *,
        name: str = "",
        tracer: tracing.Tracer = tracing.NULL_TRACER,
        modules: ModuleSpace | None = None,
    ) -> None:
        self.runtime = runtime
        self.world = world
        self.tracer = tracer
        self.modules = modules
        self.id = -1
        self.name = name
        #: how many processes of this rank there were before; its ids begin where theirs cannot be
        self.incarnation = 0
        #: steps in on what happens here; to be set before ``init_rpc``
        self.interceptor: Interceptor | None = None
        #: state of the public API (see squall.real.rpc.state), made on first use
        self.rpc_state: Any = None
        #: whether the last group was left by a graceful shutdown, after which nothing may be left
        self.shut_down = False
        #: anything else that is private to a process, by key
        self.locals: dict[Any, Any] = {}
        self.agent: Agent | None = None
        self.request_callback: RequestHandler | None = None
        self.rref_context: References | None = None
        self.container: Contexts | None = None

    @property
    def known_as(self) -> str:
        """What people are told of it by."""
        return self.name

    def __repr__(self) -> str:
        return f"<worker {self.id} {self.name}>"


def devices_of(process: Process) -> tuple[torch.device, ...]:
    """The devices of a process that tensors of messages may be on."""
    agent = process.agent
    return () if agent is None else agent.devices
