"""The workers of a script, and what they leave behind."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from squall.model.events.kept import Kept
from squall.real import tracing
from squall.real.autograd.container import DistAutogradContainer
from squall.real.autograd.context import DistAutogradContext
from squall.real.ids import WorkerId
from squall.real.rpc.agent import RpcAgent
from squall.real.rpc.rref import PY_OBJECT, OwnerRRef, UserRRef
from squall.real.rpc.rref_context import RRefContext
from squall.real.rpc.transport import Transport
from squall.real.runtime import Runtime
from squall.real.worker import Worker
from squall.sim.scripts.unended import Made, References, Unended
from squall.sim.world.places import CodePlace, user_place

R = TypeVar("R", OwnerRRef, UserRRef)
#: key in ``Worker.locals`` of what its process runs, where it has no name of its own: ``main(0)``
LABEL = "label"


class ScriptWorker(Worker):
    """A worker that counts what is left after each graceful shutdown, which waits for all."""

    __slots__ = ("holders", "joined", "kept", "leaked_rrefs", "left_well",
                 "made", "on_join")  # fmt: skip

    def __init__(self, runtime: Runtime, world: Transport, *, name: str) -> None:
        super().__init__(runtime, world, name=name)
        #: owners that were still there, in all groups that it has left
        self.leaked_rrefs = 0
        #: groups that it joined, and those that it left by a graceful shutdown
        self.joined = 0
        self.left_well = 0
        #: references that were there until the shutdown, by the line that makes them
        self.kept: list[Kept] = []
        #: what its code is to end itself
        self.made = Made()
        #: finds the names by which the code of its process holds objects
        self.holders: Callable[[Sequence[object]], list[str]] = lambda _: []
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

    def new_container(self, worker_id: WorkerId) -> DistAutogradContainer:
        return _NotedContexts(self, worker_id=worker_id)

    def contexts_left(self) -> list[Kept]:
        """Contexts that are still there, by the lines that made them."""
        if not isinstance(self.container, _NotedContexts) or not self.shut_down:
            return []
        return [
            Kept(self.known_as, str(place), number, what="contexts", function=place.function)
            for place, number in Counter(self.container.made.values()).items()
        ]

    def unended(self) -> list[Unended]:
        """What its code has made and not ended."""
        rrefs = self.rref_context
        references = rrefs.references.unended() if isinstance(rrefs, _CountedRRefs) else []
        return [*self.made.unended(), *references]

    def leaked_contexts(self) -> int:
        """Autograd contexts that are still there; 0 unless its last group was left gracefully."""
        if self.container is None or not self.shut_down:
            return 0
        return self.container.num_autograd_contexts()


class _NotedContexts(DistAutogradContainer):
    """``made``: of contexts that are there, the lines that made them on this worker."""

    def __init__(self, worker: Worker, *, worker_id: WorkerId) -> None:
        super().__init__(worker, worker_id=worker_id)
        self.made: WeakKeyDictionary[DistAutogradContext, CodePlace] = WeakKeyDictionary()

    def new_context(self) -> DistAutogradContext:
        context = super().new_context()
        place = user_place(sys._getframe(1))
        if place.file:
            self.made[context] = place
        return context


class _CountedRRefs(RRefContext):
    worker: ScriptWorker

    def __init__(self, worker: ScriptWorker) -> None:
        super().__init__(worker)
        self.references = References()

    def create_user_rref(self, owner: WorkerId, type_str: str = PY_OBJECT) -> UserRRef:
        return self._noted(super().create_user_rref(owner, type_str))

    def create_owner_rref(self, type_str: str = PY_OBJECT) -> OwnerRRef:
        return self._noted(super().create_owner_rref(type_str))

    def _noted(self, rref: R) -> R:
        self.references.note(rref, self._calls())
        return rref

    def _calls(self) -> int:
        """How many the worker has made."""
        return int(getattr(self.worker.agent, "calls_made", 0))

    def del_all_users_and_unforked_owners(self, timeout_s: float = 100.0) -> None:
        """Everybody has come to the shutdown: what is there still, the program has kept."""
        self.worker.kept += self.references.kept(
            self.worker.name, self._calls(), self.worker.holders, _is_kept
        )
        super().del_all_users_and_unforked_owners(timeout_s)

    def destroy_instance(self, ignore_rref_leak: bool = True) -> None:
        if self.worker.shut_down:
            self.worker.left_well += 1
            self.worker.leaked_rrefs += len(self.owner_tables.owners)
        else:
            self.worker.tracer.emit(tracing.GROUP_LEFT)
        super().destroy_instance(ignore_rref_leak)


def _is_kept(rref: Any) -> bool:
    return isinstance(rref, OwnerRRef) or (rref.confirmed and not rref.deleted)
