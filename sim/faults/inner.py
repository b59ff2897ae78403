"""Faults inside a worker: errors that are raised where user code or memory is touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from squall.real.interceptor import Interceptor, Place
from squall.real.rpc.wire_names import label_module
from squall.real.runtime import TaskOwner
from squall.sim.faults.fault import Ability, Effect, Fault, Group, Injection

if TYPE_CHECKING:
    from squall.real.rpc.message import Message
    from squall.real.worker import Worker

label_module(__name__, "faults")


class InjectedError(RuntimeError):
    """An exception that a fault plan asked for."""


class ErrorFault(Fault):
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
        return _ErrorEffect(self, name, injection)


class _ErrorEffect(Effect[ErrorFault]):
    def __init__(self, item: ErrorFault, name: str, injection: Injection) -> None:
        super().__init__(item, name, injection)
        injection.shared(Inside).add(self)

    def happen(self) -> None:
        """Raises what the item asks for."""
        self.report(self.item.worker, self.item.detail)
        raise self.item.error()


class Inside(Interceptor):
    """What the items of a plan do, and want to know, inside the workers of a run.

    Nothing before the plan begins and after it ends.
    """

    def __init__(self) -> None:
        self.active = False
        #: by rank and place
        self._effects: dict[tuple[int, Place], list[_ErrorEffect]] = {}
        #: how often a worker has come to a place
        self._counts: dict[tuple[int, Place], int] = {}
        self._on_handled: list[Callable[[Message], object]] = []

    def add(self, effect: _ErrorEffect) -> None:
        self._effects.setdefault((effect.item.worker, effect.item.place), []).append(effect)

    def on_handled(self, do: Callable[[Message], object]) -> None:
        """Call ``do`` with each message that a worker is done with."""
        self._on_handled.append(do)

    def prepare(self, worker: Worker) -> None:
        """Step in on a process, if any item of the plan asks for it."""
        if self._effects or self._on_handled:
            worker.interceptor = self

    # -- Interceptor --------------------------------------------------------------------

    def at(self, worker: TaskOwner, place: Place) -> None:
        """Raises what an item asks for, at its turn."""
        key = (worker.id, place)
        effects = self._effects.get(key)
        if effects is None or not self.active:
            return
        count = self._counts[key] = self._counts.get(key, 0) + 1
        for effect in effects:
            if effect.item.nth == count:
                effect.happen()

    def handled(self, worker: TaskOwner, message: Message) -> None:
        if self.active:
            for do in self._on_handled:
                do(message)
