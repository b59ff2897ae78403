"""The workers of a script, and what they leave behind."""

from __future__ import annotations

from collections.abc import Callable

from squall.real import tracing
from squall.real.rpc.agent import RpcAgent
from squall.real.rpc.rref_context import RRefContext
from squall.real.rpc.transport import World
from squall.real.runtime import Runtime
from squall.real.worker import Worker

#: key in ``Worker.locals`` of what its process runs, where it has no name of its own: ``main(0)``
LABEL = "label"


class ScriptWorker(Worker):
    """A worker that counts what is left after each graceful shutdown, which waits for all."""

    __slots__ = ("joined", "leaked_rrefs", "left_well", "on_join")

    def __init__(self, runtime: Runtime, world: World, *, name: str) -> None:
        super().__init__(runtime, world, name=name)
        #: owners that were still there, in all groups that it has left
        self.leaked_rrefs = 0
        #: groups that it joined, and those that it left by a graceful shutdown
        self.joined = 0
        self.left_well = 0
        #: told when it joins one
        self.on_join: Callable[[ScriptWorker], object] | None = None

    @property
    def known_as(self) -> str:
        if self.joined:
            return self.name
        return f"rank {self.id}" if self.id >= 0 else self.locals.get(LABEL, "") or self.name

    def set_agent(self, agent: RpcAgent) -> None:
        if self.rref_context is None:
            self.rref_context = _CountedRRefs(self)
        super().set_agent(agent)
        self.joined += 1
        if self.on_join is not None:
            self.on_join(self)

    def leaked_contexts(self) -> int:
        """Autograd contexts that are still there; 0 unless its last group was left gracefully."""
        if self.container is None or not self.shut_down:
            return 0
        return self.container.num_autograd_contexts()


class _CountedRRefs(RRefContext):
    worker: ScriptWorker

    def destroy_instance(self, ignore_rref_leak: bool = True) -> None:
        if self.worker.shut_down:
            self.worker.left_well += 1
            self.worker.leaked_rrefs += len(self.owner_tables.owners)
        else:
            self.worker.tracer.emit(tracing.GROUP_LEFT)
        super().destroy_instance(ignore_rref_leak)
