"""Faults that happen to a worker as a whole, at a time or after a moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from squall.model.events.names import worker_named
from squall.sim.faults.fault import Effect, Fault, Group
from squall.sim.faults.limits import Rank, Seconds
from squall.sim.faults.moments import Moment

if TYPE_CHECKING:
    from squall.real.worker import Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFault(Fault):
    """Something that happens to ``worker``, ``at_s`` after the start, or after ``moment``."""

    group: ClassVar[Group] = "workers"

    worker: Rank
    at_s: Seconds = 0.0
    moment: Moment | None = None

    def told(self, names: Mapping[int, str]) -> str:
        when = f"{self.at_s:g} s"
        if self.moment is not None:
            when = (f"{when} " if self.at_s else "") + f"after {self.moment.told(names)}"
        else:
            when = f"at {when}"
        return self.done_to(f"{worker_named(names, self.worker)} {when}")

    def done_to(self, worker: str) -> str:
        """What is done to ``worker``, who is told with when, in words."""
        raise NotImplementedError

    def renumbered(self, ranks: Mapping[int, int]) -> Self | None:
        found = Fault.renumbered(self, ranks)
        moment = self.moment
        if found is None or moment is None or moment.worker is None:
            return found
        changes: dict[str, Any] = {"moment": replace(moment, worker=ranks.get(moment.worker))}
        return replace(found, **changes)


W = TypeVar("W", bound=WorkerFault)


class WorkerEffect(Effect[W]):
    """An item about a worker at work in one run."""

    def begin(self) -> None:
        item, injection = self.item, self.injection
        if item.moment is None:
            injection.later(item.at_s, self._due)
        else:
            injection.moments.at(item.moment, lambda: injection.later(item.at_s, self._due))

    def _due(self) -> None:
        worker = self.injection.host.worker(self.item.worker)
        if worker is not None:
            self.happen(worker)

    def happen(self, worker: Worker) -> None:
        """Do it to the present process of the worker."""
        raise NotImplementedError
