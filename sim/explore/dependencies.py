"""What tasks touch of what arrivals of messages touch, too: told by the classes of real/ themselves.

The arrival of a message changes little (see :class:`~squall.sim.world.controlled_network.ChosenNetwork`),
and most tasks neither change nor look at that. Those that do are listed here, each with the method
by which they do it. Nothing of it is in place outside of :func:`told`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from squall.real.rpc.agent import RpcAgent
from squall.real.rpc.call_table import CallTable
from squall.real.rpc.in_flight import InFlight
from squall.sim.world.controlled_time import ChosenTime

Method = Callable[..., Any]
#: given the clock, the name of the worker and the arguments of a call of the method
Teller = Callable[[ChosenTime, str, tuple[Any, ...]], None]


def _agent(time: ChosenTime, worker: str, _: tuple[Any, ...]) -> None:
    """All calls, and whether there is an agent."""
    time.touch(("agent", worker))


def _call(time: ChosenTime, worker: str, args: tuple[Any, ...]) -> None:
    """One call."""
    time.touch(("call", worker, args[0]))


def _worker(time: ChosenTime, worker: str, _: tuple[Any, ...]) -> None:
    """The worker as a whole: a late answer may bring references."""
    time.touch(worker)


def _active(time: ChosenTime, worker: str, _: tuple[Any, ...]) -> None:
    """How many requests are under way."""
    time.touch(("active", worker), "read")


#: what looks at, or changes, more than a task's own: class, method, what it touches
_TELL: tuple[tuple[type, str, Teller], ...] = (
    (RpcAgent, "start", _agent),
    (RpcAgent, "shutdown", _agent),
    (RpcAgent, "abandon", _agent),
    (RpcAgent, "peer_lost", _agent),
    (RpcAgent, "get_metrics", _active),
    (CallTable, "take_all", _agent),
    (CallTable, "peer_lost", _agent),
    (CallTable, "take", _call),
    (CallTable, "_wait_on", _call),
    (CallTable, "is_late", _worker),
    (InFlight, "count", _active),
)


@contextmanager
def told() -> Iterator[None]:
    """Let what is listed here tell what it touches, of all that runs in the block."""
    #: how many tasks of a worker wait until nothing is under way
    waiting: Counter[str] = Counter()
    changed: list[tuple[type, str, Method]] = [
        (InFlight, "is_quiet", _asked(waiting)),
        (InFlight, "wait_for_none", _awaited(waiting)),
    ]
    changed += [(kind, name, _telling(kind.__dict__[name], teller)) for kind, name, teller in _TELL]
    with replaced(changed):
        yield


@contextmanager
def replaced(changed: list[tuple[type, str, Method]]) -> Iterator[None]:
    """Let classes have these methods in the block."""
    before = [(kind, name, kind.__dict__[name]) for kind, name, _ in changed]
    for kind, name, method in changed:
        setattr(kind, name, method)
    try:
        yield
    finally:
        for kind, name, method in before:
            setattr(kind, name, method)


def _telling(method: Method, teller: Teller) -> Method:
    @wraps(method)
    def tell(self: Any, *args: Any, **options: Any) -> Any:
        worker = _worker_of(self)
        time = worker.runtime.env
        if isinstance(time, ChosenTime):
            teller(time, worker.name, args)
        return method(self, *args, **options)

    return tell


def _asked(waiting: Counter[str]) -> Method:
    """``InFlight.is_quiet``, which everybody asks who ends a call: that is of no account unless
    somebody waits for the answer."""
    method, count = InFlight.is_quiet, InFlight.count

    def is_quiet(self: InFlight) -> bool:
        if waiting[_worker_of(self).name]:
            return method(self)
        return count(self) == 0

    return is_quiet


def _awaited(waiting: Counter[str]) -> Method:
    method = InFlight.wait_for_none

    @wraps(method)
    def wait_for_none(self: InFlight, timeout: float) -> None:
        name = _worker_of(self).name
        waiting[name] += 1
        try:
            method(self, timeout)
        finally:
            waiting[name] -= 1

    return wait_for_none


def _worker_of(thing: Any) -> Any:
    return thing.worker if isinstance(thing, RpcAgent) else thing._worker
