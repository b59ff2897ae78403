"""One worker: what is one process in PyTorch owns here everything that is a singleton there."""

from __future__ import annotations

from squall.real import tracing
from squall.real.autograd.container import DistAutogradContainer
from squall.real.autograd.dist_engine import DistEngine
from squall.real.ids import WorkerId
from squall.real.process import ModuleSpace, Process
from squall.real.rpc.agent import RpcAgent
from squall.real.rpc.rref_context import RRefContext
from squall.real.rpc.transport import Transport
from squall.real.runtime import Runtime, Task, current_task, current_task_or_none


class Worker(Process):
    """A process with all its parts: agent, RRef context, autograd container and engine.

    Exists before ``init_rpc``, which gives it its name and id and fills in the parts, and
    after ``shutdown``, which takes the agent and the RRef context away again.
    """

    __slots__ = ("engine",)

    agent: RpcAgent | None
    rref_context: RRefContext | None
    container: DistAutogradContainer | None

    def __init__(
        self,
        runtime: Runtime,
        world: Transport,
        *,
        name: str = "",
        tracer: tracing.Tracer = tracing.NULL_TRACER,
        modules: ModuleSpace | None = None,
    ) -> None:
        super().__init__(runtime, world, name=name, tracer=tracer, modules=modules)
        self.engine: DistEngine | None = None

    def set_agent(self, agent: RpcAgent) -> None:
        """Take an agent into use: from here on the worker has a name, an id and RRefs."""
        self.agent = agent
        self.shut_down = False
        self.name = agent.info.name
        self.id = agent.info.id
        if self.rref_context is None:
            self.rref_context = RRefContext(self)

    def new_container(self, worker_id: WorkerId) -> DistAutogradContainer:
        """What keeps its autograd contexts."""
        return DistAutogradContainer(self, worker_id=worker_id)

    def reset_agent(self) -> None:
        """Forget the agent and what belongs to it."""
        self.agent = None
        self.request_callback = None
        self.rref_context = None

    def task(self, name: str = "main") -> Task:
        """A task on this worker for code that runs outside every task; see ``run_as``."""
        return Task(self.runtime, -1, name, self)


def current_worker() -> Worker:
    """The worker that the running task belongs to. Raises RuntimeError if there is none."""
    worker = current_task().worker
    if not isinstance(worker, Worker):
        raise RuntimeError("this task belongs to no worker")
    return worker


def current_worker_or_none() -> Worker | None:
    """As :func:`current_worker`; None where that raises."""
    task = current_task_or_none()
    worker = None if task is None else task.worker
    return worker if isinstance(worker, Worker) else None
