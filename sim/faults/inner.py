"""The items of a plan that happen inside a worker: errors where user code or memory is touched."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import torch

from squall.sim.faults.plan import Allocation, Plan, Raise

#: tells the trace: kind, item, worker, detail
Inject = Callable[[str, str, int, object], None]


class InjectedError(RuntimeError):
    """An exception that a fault plan asked for."""


class Probe:
    """Told where the code of one worker is (see ``Worker.probe``); raises when it is time."""

    def __init__(self, worker: int, inject: Inject) -> None:
        self._worker = worker
        self._inject = inject
        self._items: dict[str, list[tuple[str, int, Allocation | Raise]]] = {}
        self._counts: dict[str, int] = {}
        self.active = False

    def add(self, name: str, item: Allocation | Raise) -> None:
        where = "node" if isinstance(item, Allocation) or item.where == "backward" else item.where
        self._items.setdefault(where, []).append((name, item.nth, item))

    def __call__(self, where: str) -> None:
        """Raises what an item asks for, at its turn."""
        items = self._items.get(where)
        if items is None or not self.active:
            return
        count = self._counts[where] = self._counts.get(where, 0) + 1
        for name, nth, item in items:
            if nth == count:
                self._raise(name, item, count)

    def _raise(self, name: str, item: Allocation | Raise, count: int) -> None:
        if isinstance(item, Allocation):
            self._inject("allocation", name, self._worker, count)
            raise torch.OutOfMemoryError(
                f"injected: can't allocate memory for node {count} of worker {self._worker}"
            )
        self._inject("raise", name, self._worker, f"{item.where} {count}")
        text = f"injected: {item.where} {count} of worker {self._worker} fails"
        if item.where == "pickle":
            raise pickle.PicklingError(text)
        if item.where == "unpickle":
            raise pickle.UnpicklingError(text)
        raise InjectedError(text)


def make_probes(plan: Plan, inject: Inject) -> dict[int, Probe]:
    """A probe for each worker that the plan has errors for."""
    probes: dict[int, Probe] = {}
    for at, item in enumerate(plan.inner):
        if isinstance(item, Allocation | Raise):
            probe = probes.setdefault(item.worker, Probe(item.worker, inject))
            probe.add(f"inner[{at}]", item)
    return probes
