"""What all kinds of faults have in common: an item of a plan, and the item at work in a run.

A kind is a module in ``sim/faults/kinds/`` with

- its item: a frozen dataclass derived from :class:`Fault` through the base of its group
  (:class:`~squall.sim.faults.messages.MessageFault`,
  :class:`~squall.sim.faults.links.LinkFault`, :class:`~squall.sim.faults.workers.WorkerFault`,
  :class:`~squall.sim.faults.inner.ErrorFault`), whose docstring is its line in docs/faults.md
  and whose fields have the types of sim/faults/limits.py;
- what it does in words, ``told``, or for most bases ``done_to``;
- its :class:`Effect`, unless that of its base does;
- how a seed draws it, if it does (:func:`squall.sim.faults.choices.drawn`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, Self, TypeVar

from pydantic import ConfigDict

from squall.model.program.strict_json import MadeError
from squall.model.program.validated import check_fields
from squall.real import tracing
from squall.sim.faults.limits import STRICT, Problem
from squall.sim.faults.moments import Moments
from squall.sim.faults.on_stock import StockSettings
from squall.sim.world.primitives import SimTimer
from squall.sim.world.rules import Ruling
from squall.sim.world.streams import NamedStream
from squall.sim.world.trace import Event

if TYPE_CHECKING:
    from squall.real.rpc.message import Message
    from squall.real.worker import Worker
    from squall.sim.world.network import Network

Group = Literal["messages", "links", "partitions", "workers", "inner"]
#: what an engine can be able to do: reach into a worker's process (its agent, its engine, its
#: clock, each step of its tasks), start another process of a rank
Ability = Literal["inside", "restart"]
#: why the compiled engine lacks an ability
WITHOUT: Mapping[Ability, str] = {
    "inside": "the inside of a worker there is PyTorch's own: no step of it can be failed",
    "restart": "a process of PyTorch that ended cannot join its group again",
}
#: the position of a kind that declares none: behind all of its group that do
LAST = 1_000_000


def check_made(made: Fault | Any) -> None:
    """Raises ValueError for the first field whose value makes no sense, alone or beside others."""
    check_fields(made)
    problem = made.problem()
    if problem is not None:
        name, text = problem
        raise MadeError(f"{type(made).__name__}.{name}: {text}")


class Fault:
    """An item of a plan: what is to go wrong, as frozen data."""

    __slots__ = ()
    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    # Each kind is a dataclass.
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    #: the list of the plan that such items stand in
    group: ClassVar[Group]
    #: the place of the kind in its group, which is the order in which kinds are listed and drawn
    position: ClassVar[int] = LAST
    #: what an engine must be able to do for any such item
    needs: ClassVar[tuple[Ability, ...]] = ()
    #: what it must for some, and in words for which
    may_need: ClassVar[Mapping[Ability, str]] = {}
    #: events in the trace that come of such items besides those named like the kind
    further_events: ClassVar[tuple[str, ...]] = ()

    #: a field with a default in each kind
    kind: str

    def __post_init__(self) -> None:
        check_made(self)

    def told(self, names: Mapping[int, str]) -> str:
        """What it does, in words. ``names``: of workers."""
        raise NotImplementedError

    def problem(self) -> Problem | None:
        """A field whose value makes no sense beside the others', and why; None if all do."""
        return None

    def needed(self) -> tuple[Ability, ...]:
        """What an engine must be able to do for this item."""
        return self.needs

    @property
    def draws(self) -> bool:
        """Whether the item draws from a random stream. It has an ``id`` then."""
        return False

    def concrete(self, events: list[Event]) -> Iterator[Fault]:
        """Items without draws that do what this one did in a run: ``events`` has what it did."""
        yield self

    def renumbered(self, ranks: Mapping[int, int]) -> Self | None:
        """The same about workers with other numbers; None if it would mean something else.

        ``ranks``: by the number of a worker that stays the one it has then.
        """
        changes: dict[str, Any] = {}
        for name in ("src", "dst", "worker"):
            rank = getattr(self, name, None)
            if rank is not None:
                if rank not in ranks:
                    return None
                changes[name] = ranks[rank]
        if changes.get("src") is not None and changes["src"] == changes.get("dst"):
            return None
        return replace(self, **changes)

    def on_stock(self, settings: StockSettings) -> str | None:
        """Make ``settings`` of a script for stock PyTorch do the same, as near as they come.

        Returns what they do otherwise, in words; "" if they do the same; None if stock PyTorch has
        no such fault.
        """
        return None

    def at_work(self, name: str, injection: Injection) -> Effect[Any]:
        """The item at work in one run. ``name``: its place in the plan, ``workers[0]``."""
        raise NotImplementedError


class Host(Protocol):
    """Whoever has the workers, by rank, and can end and restart their processes."""

    def worker(self, rank: int) -> Worker | None:
        """The present process of a rank; None if there is none yet."""

    def crash(self, rank: int, *, silent: bool) -> bool:
        """End the process of a worker; False if there is none to end."""

    def restart(self, rank: int) -> None: ...

    def shutdown_worker(self, rank: int, *, graceful: bool) -> None: ...

    def collect_garbage(self, rank: int) -> None: ...


S = TypeVar("S")


class Injection:
    """What the items of a plan work with in one run, and have in common.

    ``heal_s``: how long after the start they end, in seconds of virtual time (math.inf: never).
    """

    def __init__(self, network: Network, host: Host, heal_s: float) -> None:
        self.network = network
        self.runtime = network.runtime
        self.host = host
        self.heal_s = heal_s
        #: when times and counts began
        self.start_s = 0.0
        self.moments = Moments()
        self._tracer = network.tracer
        self._stream = NamedStream(network.runtime.seed)
        self._timers: list[SimTimer] = []
        self._shared: dict[type[Any], Any] = {}

    def time_s(self) -> float:
        """Seconds of virtual time since the start."""
        return self.runtime.env.now - self.start_s

    def stream(self, id: int, message: Message, nth: int) -> NamedStream:
        """What item ``id`` draws from about a message, the ``nth`` of its type on its link: see
        :mod:`squall.sim.faults.plan`. Each call gives the same object, at its first draw."""
        link = f"link {message.src}->{message.dst}/{message.type.name}/{nth - 1}"
        return self._stream.named(f"fault {id}/{link}".encode())

    def later(self, delay_s: float, act: Callable[[], object]) -> SimTimer:
        """Call ``act`` in so many seconds, unless all is healed before."""
        timer = self.runtime.call_later(delay_s, act)
        timer.worker = None  # it is nobody's, whoever happens to run
        self._timers.append(timer)
        return timer

    def cancel_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def shared(self, type: type[S]) -> S:
        """The one object of a class that the items of this run have in common."""
        found = self._shared.get(type)
        if found is None:
            found = self._shared[type] = type()
        known: S = found
        return known

    def report(self, kind: str, item: str, worker: int, detail: object) -> None:
        """Tell the trace that something happens to a worker."""
        if self._tracer.enabled:
            self._tracer.emit(tracing.FAULT_INJECTED, kind, item, worker, -1, -1, "", 0, -1, detail)

    def report_message(self, kind: str, item: str, message: Message, detail: object) -> None:
        """Tell the trace that something happens to a message."""
        if self._tracer.enabled:
            self._tracer.emit(
                tracing.FAULT_INJECTED,
                kind,
                item,
                -1,
                message.src,
                message.dst,
                message.type._name_,
                0,
                message.number,
                detail,
            )


F = TypeVar("F", bound=Fault)


class Effect(Generic[F]):
    """An item at work in one run. A kind says what it does by overriding some of this."""

    def __init__(self, item: F, name: str, injection: Injection) -> None:
        self.item = item
        self.name = name
        self.injection = injection

    def start_delay_s(self, rank: int) -> float:
        """How much later than others the process of that rank starts."""
        return 0.0

    def threads(self, rank: int, default: int) -> int:
        """How many threads the agent of that rank has, which has ``default`` otherwise."""
        return default

    def prepare(self, rank: int, worker: Worker) -> None:
        """There is a new process of that rank, which has done nothing yet."""

    def begin(self) -> None:
        """Times and counts start now."""

    def heal(self) -> None:
        """The faults end now."""

    def report(self, worker: int, detail: object) -> None:
        """Tell the trace that it happens to a worker."""
        self.injection.report(self.item.kind, self.name, worker, detail)


class Judge(Effect[F]):
    """An item that keeps messages from arriving."""

    def judge(self, message: Message, nth: int, time_s: float) -> Ruling | None:
        """What becomes of a message, the ``nth`` of its type on its link, that is sent
        ``time_s`` after the start; None: nothing."""
        raise NotImplementedError
