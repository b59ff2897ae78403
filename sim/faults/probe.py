"""Faults inside a worker: errors that are raised where user code or memory is touched."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Literal

from squall.real.worker import Worker
from squall.sim.faults.fault import Ability, Effect, Fault, Group, Injection

#: what a worker's code tells its probe that it comes to (see ``Worker.probe``)
Place = Literal["udf", "hook", "node", "pickle", "unpickle"]


class InjectedError(RuntimeError):
    """An exception that a fault plan asked for."""


class ProbedFault(Fault):
    """An error that is raised the ``nth`` time (from 1) that ``worker`` comes to a place."""

    __slots__ = ()

    group: ClassVar[Group] = "inner"
    needs: ClassVar[tuple[Ability, ...]] = ("inside",)

    #: fields of each kind
    worker: int
    nth: int

    @property
    def place(self) -> Place:
        """Where it is raised."""
        raise NotImplementedError

    @property
    def detail(self) -> object:
        """What the trace says of it."""
        raise NotImplementedError

    def error(self) -> Exception:
        """What is raised; its text begins with "injected"."""
        raise NotImplementedError

    def at_work(self, name: str, injection: Injection) -> Effect[Any]:
        return _ProbedEffect(self, name, injection)


class _ProbedEffect(Effect[ProbedFault]):
    def __init__(self, item: ProbedFault, name: str, injection: Injection) -> None:
        super().__init__(item, name, injection)
        self.active = False
        injection.shared(Probes).add(self)

    def begin(self) -> None:
        self.active = True

    def heal(self) -> None:
        self.active = False

    def happen(self) -> None:
        """Raises what the item asks for."""
        self.report(self.item.worker, self.item.detail)
        raise self.item.error()


class Probe:
    """Told where the code of one worker is (see ``Worker.probe``); raises when it is time."""

    def __init__(self) -> None:
        self._effects: dict[str, list[_ProbedEffect]] = {}
        self._counts: dict[str, int] = {}

    def add(self, effect: _ProbedEffect) -> None:
        self._effects.setdefault(effect.item.place, []).append(effect)

    def __call__(self, place: str) -> None:
        """Raises what an item asks for, at its turn."""
        effects = self._effects.get(place)
        if effects is None or not effects[0].active:
            return
        count = self._counts[place] = self._counts.get(place, 0) + 1
        for effect in effects:
            if effect.item.nth == count:
                effect.happen()


class Probes:
    """The probes of a run, by rank."""

    def __init__(self) -> None:
        self._probes: dict[int, Probe] = {}

    def add(self, effect: _ProbedEffect) -> None:
        self._probes.setdefault(effect.item.worker, Probe()).add(effect)

    def prepare(self, worker: Worker, rank: int | None = None) -> None:
        """Give a process its probe if any worker has one; without a rank, as soon as it has an
        id."""
        probe = None if rank is None else self._probes.get(rank)
        if probe is not None:
            worker.probe = probe
        elif self._probes and worker.probe is None:
            worker.probe = partial(self._by_id, worker)

    def _by_id(self, worker: Worker, place: str) -> None:
        probe = self._probes.get(worker.id)
        if probe is not None:
            probe(place)
