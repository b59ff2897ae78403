"""The workers of a script, and what they leave behind."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from squall.model.events.run import Kept
from squall.real import tracing
from squall.real.ids import WorkerId
from squall.real.rpc.agent import RpcAgent
from squall.real.rpc.rref import PY_OBJECT, OwnerRRef, UserRRef
from squall.real.rpc.rref_context import RRefContext
from squall.real.rpc.transport import World
from squall.real.runtime import Runtime
from squall.real.worker import Worker
from squall.sim.world.places import user_line

R = TypeVar("R", OwnerRRef, UserRRef)
#: so many references that one line has made, at least, tell that it makes one a step
_STEPS_LEAST = 3
#: key in ``Worker.locals`` of what its process runs, where it has no name of its own: ``main(0)``
LABEL = "label"


class ScriptWorker(Worker):
    """A worker that counts what is left after each graceful shutdown, which waits for all."""

    __slots__ = ("holders", "joined", "kept", "leaked_rrefs", "left_well", "on_join")

    def __init__(self, runtime: Runtime, world: World, *, name: str) -> None:
        super().__init__(runtime, world, name=name)
        #: owners that were still there, in all groups that it has left
        self.leaked_rrefs = 0
        #: groups that it joined, and those that it left by a graceful shutdown
        self.joined = 0
        self.left_well = 0
        #: references that were there until the shutdown, by the line that makes them
        self.kept: list[Kept] = []
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

    def leaked_contexts(self) -> int:
        """Autograd contexts that are still there; 0 unless its last group was left gracefully."""
        if self.container is None or not self.shut_down:
            return 0
        return self.container.num_autograd_contexts()


class _CountedRRefs(RRefContext):
    worker: ScriptWorker

    def __init__(self, worker: ScriptWorker) -> None:
        super().__init__(worker)
        #: of references that are there: the line that made each, and after how many calls of the worker
        self._made: WeakKeyDictionary[Any, tuple[str, int]] = WeakKeyDictionary()

    def create_user_rref(self, owner: WorkerId, type_str: str = PY_OBJECT) -> UserRRef:
        return self._noted(super().create_user_rref(owner, type_str))

    def create_owner_rref(self, type_str: str = PY_OBJECT) -> OwnerRRef:
        return self._noted(super().create_owner_rref(type_str))

    def _noted(self, rref: R) -> R:
        self._made[rref] = user_line(sys._getframe(2)), self._calls()
        return rref

    def _calls(self) -> int:
        """How many the worker has made."""
        return int(getattr(self.worker.agent, "calls_made", 0))

    def del_all_users_and_unforked_owners(self, timeout_s: float = 100.0) -> None:
        """Everybody has come to the shutdown: what is there still, the program has kept."""
        made: dict[str, list[tuple[Any, int]]] = {}
        for rref, (place, calls) in self._made.items():
            if place and (isinstance(rref, OwnerRRef) or (rref.confirmed and not rref.deleted)):
                made.setdefault(place, []).append((rref, calls))
        for place, found in made.items():
            numbers = [number for _, number in found]
            grows = _one_a_step(numbers, self._calls())
            held = self.worker.holders([rref for rref, _ in found]) if grows else []
            self.worker.kept.append(Kept(self.worker.name, place, len(found), grows, held))
        super().del_all_users_and_unforked_owners(timeout_s)

    def destroy_instance(self, ignore_rref_leak: bool = True) -> None:
        if self.worker.shut_down:
            self.worker.left_well += 1
            self.worker.leaked_rrefs += len(self.owner_tables.owners)
        else:
            self.worker.tracer.emit(tracing.GROUP_LEFT)
        super().destroy_instance(ignore_rref_leak)


def _one_a_step(numbers: list[int], now: int) -> bool:
    """Whether something was made again and again until the end, with other calls between: after so many of them
    each. What is made while a program sets itself up has its work before it."""
    if len(numbers) < _STEPS_LEAST:
        return False
    gaps = [later - before for before, later in pairwise(numbers)]
    return min(gaps) > 1 and now - numbers[-1] <= 2 * max(gaps)
