"""One worker: what is one process in PyTorch owns here everything that is a singleton there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from squall.real import tracing

if TYPE_CHECKING:
    from squall.real.autograd.container import DistAutogradContainer
    from squall.real.autograd.dist_engine import DistEngine
    from squall.real.rpc.agent import RpcAgent
    from squall.real.rpc.request_callback import RequestCallback
    from squall.real.rpc.rref_context import RRefContext
    from squall.real.rpc.server_profiling import ServerProfile
    from squall.real.rpc.transport import World
    from squall.real.runtime import Runtime, Task


class ModuleSpace(Protocol):
    """The worker's own copies of user modules."""

    def owns(self, module: str) -> bool: ...

    def find(self, module: str, qualname: str) -> Any:
        """Raises AttributeError or ImportError as ordinary import would."""


class Worker:
    """A process: agent, RRef context, autograd container and engine, and what else is private.

    Exists before ``init_rpc``, which gives it its name and id and fills in the parts, and
    after ``shutdown``, which takes the agent and the RRef context away again.
    """

    __slots__ = (
        "__weakref__",
        "agent",
        "container",
        "engine",
        "id",
        "incarnation",
        "leaked_rrefs",
        "locals",
        "modules",
        "name",
        "probe",
        "request_callback",
        "rpc_state",
        "rref_context",
        "runtime",
        "server_profiles",
        "shut_down",
        "tracer",
        "world",
    )

    def __init__(
        self,
        runtime: Runtime,
        world: World,
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
        #: told where the code is ("udf", "node", "hook", "pickle", "unpickle"), and may raise
        #: there; to be set before ``init_rpc``
        self.probe: Callable[[str], object] | None = None
        self.agent: RpcAgent | None = None
        self.request_callback: RequestCallback | None = None
        self.rref_context: RRefContext | None = None
        self.container: DistAutogradContainer | None = None
        self.engine: DistEngine | None = None
        #: the profiles of all requests that are on, the innermost last
        self.server_profiles: list[ServerProfile] = []
        #: state of the public API (real/rpc/api.py), made on first use
        self.rpc_state: Any = None
        #: whether the last group was left by a graceful shutdown, after which nothing may be left
        self.shut_down = False
        #: owners that graceful shutdowns found undeleted
        self.leaked_rrefs = 0
        #: anything else that is private to a process, by key
        self.locals: dict[Any, Any] = {}

    def set_agent(self, agent: RpcAgent) -> None:
        """Take an agent into use: from here on the worker has a name, an id and RRefs."""
        from squall.real.rpc.request_callback import RequestCallback
        from squall.real.rpc.rref_context import RRefContext

        self.agent = agent
        self.shut_down = False
        self.name = agent.info.name
        self.id = agent.info.id
        if self.rref_context is None:
            self.rref_context = RRefContext(self)
        if self.request_callback is None:
            self.request_callback = RequestCallback(self)

    def reset_agent(self) -> None:
        """Forget the agent and what belongs to it."""
        self.agent = None
        self.request_callback = None
        self.rref_context = None

    def task(self, name: str = "main") -> Task:
        """A task on this worker for code that runs outside every task; see ``run_as``."""
        from squall.real.runtime import Task

        return Task(self.runtime, -1, name, self)

    def __repr__(self) -> str:
        return f"<worker {self.id} {self.name}>"
