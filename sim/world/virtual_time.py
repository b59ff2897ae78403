"""The clock of a simulation and the queue of what is to happen: a SimPy environment.

SimPy's order is the order of every run: what is due first goes first, then what has the smaller
priority, then what was queued first.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Any, Protocol, TypeVar

import simpy

from squall.sim.world.garbage import collect

#: the priority of everything that is ready in the order fifo, SimPy's own
NORMAL = 1
#: steps between two collections of cyclic garbage: a count, so that every run has the same
COLLECT_EVERY = 50_000
#: cancelled events that may lie in the queue before it is swept
_CANCELLED = 256

Callbacks = Sequence[Callable[[Any], object]]


class Livelock(RuntimeError):  # noqa: N818 - it is what happened, not a mishap of ours
    """Something always happens, and the run does not end."""


class Due:
    """What can be queued here: it has what SimPy asks of an event, and costs less than one."""

    # A subclass has a slot `callbacks`: two bases with slots of their own do not go together.
    __slots__ = ()

    _ok = True
    _value = None

    #: called with the event when it comes due
    callbacks: Callbacks | None

    @property
    def cancelled(self) -> bool:
        """Whether it will do nothing when it comes due."""
        return False


class Ordering(Protocol):
    """What goes first of all that is due at one instant; see :mod:`squall.sim.world.ordering`."""

    #: whether there is any point in asking :meth:`yields`
    preemptive: bool

    def priority(self, event: Any, due_s: float) -> float:
        """The priority of what is queued for ``due_s``: a task, a timer, a message's arrival."""

    def yields(self) -> bool:
        """Whether the running task makes way for others at this point."""


D = TypeVar("D", bound=Due)


class VirtualTime(simpy.Environment):
    """A SimPy environment with a queue that others may look into and a clock that is cheap to read.

    Nobody else touches SimPy's own ``_queue``, ``_now`` and ``_eid``.
    """

    # SimPy's `now` is a property; every event of a trace reads the time.
    __slots__ = ("now",)

    #: seconds of virtual time since the run began
    now: float

    def __init__(self) -> None:
        super().__init__()
        #: decides what goes first at one instant; None: what was queued first
        self.ordering: Ordering | None = None
        #: takes its place where any order will do: a draw for everything that is queued
        self.order_stream: random.Random | None = None
        #: events in the queue that were cancelled
        self.cancelled = 0
        self._cancelled_since_sweep = 0
        #: how many there have been
        self.steps_made = 0

    @property
    def _now(self) -> float:  # what SimPy calls the time
        return self.now

    @_now.setter
    def _now(self, now: float) -> None:
        self.now = now

    # -- the queue ----------------------------------------------------------------------

    def put(self, event: Due, callbacks: Callbacks, delay_s: float) -> None:
        """Call ``callbacks`` with ``event`` in ``delay_s`` seconds, among what is due then."""
        event.callbacks = callbacks  # type: ignore[misc]
        due_s = self.now + delay_s
        priority: float = NORMAL
        if self.order_stream is not None:
            priority += self.order_stream.random()
        elif self.ordering is not None:
            priority = self.ordering.priority(event, due_s)
        heappush(self._queue, (due_s, priority, next(self._eid), event))  # type: ignore[misc]

    def cancel(self) -> None:
        """Note that something in the queue was cancelled. When it comes due after all, it has to
        count :attr:`cancelled` down."""
        self.cancelled += 1
        self._cancelled_since_sweep += 1
        count, queue = self._cancelled_since_sweep, self._queue
        if count > _CANCELLED and count * 2 > len(queue):
            # SimPy cannot unschedule; without this, a minute's worth of timeouts piles up.
            entries: list[Any] = list(queue)
            queue[:] = sorted(entry for entry in entries if not entry[3].cancelled)
            self.cancelled = self._cancelled_since_sweep = 0

    def clear(self) -> None:
        """Let nothing of what is queued happen."""
        self._queue.clear()
        self.cancelled = 0

    @property
    def pending(self) -> int:
        """How many events will still do something."""
        return len(self._queue) - self.cancelled

    def queued(self, kind: type[D]) -> list[tuple[float, D]]:
        """(when it is due, the event) of every queued event of a class, the next one first."""
        queue: list[Any] = self._queue
        found = sorted(entry for entry in queue if type(entry[3]) is kind)
        return [(due_s, event) for due_s, _, _, event in found]

    def next_priority(self) -> float | None:
        """The priority of what goes next at this instant; None if nothing is due."""
        queue = self._queue
        return queue[0][1] if queue and queue[0][0] <= self.now else None

    # -- time -----------------------------------------------------------------------------

    def steps(
        self, *, until_s: float | None = None, max_steps: int | None = None
    ) -> Iterator[None]:
        """Let happen what is queued, one event at each step of the iterator.

        It ends when nothing is left to happen, or nothing before ``until_s``. Raises
        :class:`Livelock` if far more than ``max_steps`` steps were made since the beginning, and
        what a callback raises.
        """
        queue: list[Any] = self._queue
        while len(queue) > self.cancelled:
            self.steps_made += 1
            if self.steps_made % COLLECT_EVERY == 0:
                if max_steps is not None and self.steps_made > max_steps:
                    raise Livelock(f"no end after {self.steps_made} steps")
                collect()
            if until_s is not None and queue[0][0] > until_s:
                return
            # What SimPy's step() does, without the call.
            self.now, _, _, event = heappop(queue)
            callbacks, event.callbacks = event.callbacks, None
            for callback in callbacks:
                callback(event)
            if not event._ok and not hasattr(event, "_defused"):
                raise event._value
            yield
