"""Virtual time in which somebody chooses, at each step, what happens next: for sim/explore.

A step is what runs from one choice to the next. What can be chosen are the messages, tasks and
timers that could go on now; a timer of later, or a task that sleeps, goes on only when none of them
is left, the earliest first: time is a barrier between steps.

What is queued has a name: that of the step that queued it, and its number among what that step
queued. Equivalent orders of steps give the same names, which numbers of tasks and messages do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, Protocol

from squall.real.rpc.message_type import RESPONSE_FLAG
from squall.sim.world.delivery import Delivery
from squall.sim.world.virtual_time import NORMAL, Callbacks, D, Due, Livelock, VirtualTime

#: how much runs between two choices: see :class:`Chooser`
Grain = Literal["message", "task", "fine"]
#: what the arrival of a message touches: its whole worker, or its call; see sim/explore/dependencies.py
Dependence = Literal["worker", "delivery"]
#: how a step touches something: two of one kind commute, unless they write
Touch = Literal["read", "add", "write"]
#: what a step touches, and how
Footprint = dict[object, Touch]

#: what a step touches that may depend on all others
EVERYTHING = "everything"
STORE = "store"
#: names have so many bits: a JSON number holds them exactly
_NAME_BITS = 52
MOST_NAME = (1 << _NAME_BITS) - 1
#: the name of what whoever runs the simulation does before the first step
_BEGINNING = 1


def name_after(parent: int, number: int) -> int:
    """The name of what a step queues: the ``number``-th, from 0, of the step ``parent``."""
    mixed = (parent ^ (number + 1) * 0x9E3779B97F4A7) * 0xD1342543DE82EF95 + 0x2545F4914F6CDD1D
    return (mixed >> 17 ^ mixed) & MOST_NAME


class GrainError(BaseException):
    """A step of the grain ``message`` touches what other workers wait for, so that the tasks that
    it wakes are not all of its own worker: the grain ``task`` is needed.

    No code under test handles it.
    """


class NotExplorableError(BaseException):
    """What happens cannot be ordered here: the text says what.

    No code under test handles it.
    """


class CrowdedError(BaseException):
    """All threads of a worker are taken, and the chooser had said that this does not happen.

    No code under test handles it.
    """


class Entry:
    """Something that is queued: what it is, its name and that of the step that queued it.

    ``is_timed``: it was queued for later. ``link``: of a message, which others it stays behind.
    """

    __slots__ = ("due_s", "event", "is_timed", "link", "name", "number", "parent")

    def __init__(
        self, event: Due, due_s: float, number: int, name: int, parent: int, is_timed: bool
    ) -> None:
        self.event = event
        self.due_s = due_s
        self.number = number
        self.name = name
        self.parent = parent
        self.is_timed = is_timed
        self.link: tuple[int, int, bool] | None = None


class Chooser(Protocol):
    """Chooses what happens next, and is told what the steps did.

    ``dependence`` says how fine the footprints of arrivals are; with "delivery" the classes of
    real/ have to tell what tasks touch of the same (sim/explore/dependencies.py). ``crowded``: the
    threads of a worker may all be taken.

    ``grain``: with "message" a step is the arrival of a message and, first come, first served, all
    that the tasks of its worker then do; with "task" it is one run of one task, or an arrival, to
    its next wait; with "fine" a task also ends its step wherever threads could be interrupted:
    where it takes a lock, starts a task, or looks at an event. ``ordered``: messages that share a
    connection arrive in the order in which they were sent; requests of one worker to another do,
    and so do the replies to them.
    """

    grain: Grain
    ordered: bool
    dependence: Dependence
    crowded: bool

    def choose(self, enabled: Sequence[Entry]) -> Entry:
        """One of these, of which there is at least one. What it raises ends the run."""

    def done(self, name: int, entry: Entry | None, footprint: Footprint) -> None:
        """A step is over; ``entry`` is what was chosen, or has come due, or None for what whoever
        runs the simulation did between two runs."""


class ChosenTime(VirtualTime):
    """The clock and the queue of a simulation whose order somebody chooses.

    Until :meth:`begin`, and after :meth:`end`, things happen as they do without.
    """

    __slots__ = (
        "_children",
        "_choosing",
        "_entries",
        "_entry",
        "_first",
        "_is_swept",
        "_name",
        "_rounds",
        "_touched",
        "arrivals",
        "chooser",
    )

    def __init__(self, chooser: Chooser) -> None:
        super().__init__()
        self.chooser = chooser
        if chooser.grain == "fine":
            self.ordering = _AtEachPoint(self)
        #: what the network of the simulation calls with each arrival
        self.arrivals: Callbacks | None = None
        self._choosing = False
        #: what is queued, the oldest first
        self._entries: list[Entry] = []
        self._is_swept = True
        #: how often the simulation was run since the beginning
        self._rounds = 0
        # The step that is under way.
        self._name = _BEGINNING
        self._children = 0
        self._entry: Entry | None = None
        self._touched: Footprint = {EVERYTHING: "write"}

    @property
    def choosing(self) -> bool:
        """Whether the order is chosen now."""
        return self._choosing

    def begin(self) -> None:
        """From here on the order is chosen."""
        self._choosing = True

    def end(self) -> None:
        """From here on things happen in the order of their times, and of one instant in that in
        which they were queued."""
        self._choosing = False

    def touch(self, what: object, how: Touch = "write") -> None:
        """The step that is under way touches something."""
        touched = self._touched
        before = touched.get(what)
        touched[what] = how if before is None or before == how else "write"
        if what is STORE and self._choosing and self.chooser.grain == "message":
            raise GrainError("a step touches the store at which the workers meet")

    # -- VirtualTime ----------------------------------------------------------------------

    def put(self, event: Due, callbacks: Callbacks, delay_s: float) -> None:
        event.callbacks = callbacks  # type: ignore[misc]
        number = next(self._eid)
        parent = self._name
        name = name_after(parent, self._children)
        self._children += 1
        due_s = self.now + delay_s
        entry = Entry(event, due_s, number, name, parent, delay_s > 0)
        if type(event) is Delivery:
            if callbacks is not self.arrivals:
                raise NotExplorableError("a story has a network of its own")
            message = event.message
            entry.link = message.src, message.dst, bool(message.type & RESPONSE_FLAG)
        self._entries.append(entry)

    def cancel(self) -> None:
        self._is_swept = False

    def clear(self) -> None:
        self._entries.clear()

    @property
    def pending(self) -> int:
        return len(self._entries)

    def queued(self, kind: type[D]) -> list[tuple[float, D]]:
        found = [entry for entry in self._entries if type(entry.event) is kind]
        found.sort(key=_in_time)
        return [(entry.due_s, entry.event) for entry in found]  # type: ignore[misc]

    def next_priority(self) -> float | None:
        entries = self._entries
        return NORMAL if entries and entries[0].due_s <= self.now else None

    def steps(
        self, *, until_s: float | None = None, max_steps: int | None = None
    ) -> Iterator[None]:
        while (entry := self._next(until_s)) is not None:
            self.steps_made += 1
            if max_steps is not None and self.steps_made > max_steps:
                raise Livelock(f"no end after {self.steps_made} steps")
            self._take(entry)
            event: Any = entry.event
            callbacks, event.callbacks = event.callbacks, None
            for callback in callbacks:
                callback(event)
            if not event._ok and not hasattr(event, "_defused"):
                raise event._value
            yield
        # What follows before the next run is done by whoever runs the simulation, who may have
        # looked at everything.
        self._finish()
        self._rounds += 1
        self._start(name_after(_BEGINNING, self._rounds), None, {EVERYTHING: "write"})

    # -- inside ---------------------------------------------------------------------------

    def _next(self, until_s: float | None) -> Entry | None:
        """What happens next, or None if nothing does before ``until_s``."""
        if not self._is_swept:
            self._sweep()
        entries = self._entries
        if not entries:
            return None
        if not self._choosing:
            now = self.now
            for entry in entries:
                if entry.due_s <= now:
                    return entry
            first = min(entries, key=_in_time)
            return None if until_s is not None and first.due_s > until_s else first
        chooser = self.chooser
        if chooser.grain == "message":
            for entry in entries:
                # What belongs to the step that is under way; what is nobody's comes from outside.
                if entry.link is not None or entry.is_timed:
                    continue
                if entry.event.worker is not None:  # type: ignore[attr-defined]
                    self._stay_with_worker(entry)
                    return entry
        if chooser.ordered:
            entries = self._first_of_links()
        enabled = [entry for entry in entries if not entry.is_timed]
        if enabled:
            self._finish()
            entry = chooser.choose(enabled)
            self._start(entry.name, entry, {})
        else:
            entry = min(entries, key=_when_quiet)
            if until_s is not None and entry.due_s > until_s:
                return None
            self._finish()
            self._start(entry.name, entry, {EVERYTHING: "write"})
        self._touch_owner(entry)
        return entry

    def _first_of_links(self) -> list[Entry]:
        """What is queued without the messages that are behind another one on their connection."""
        links: set[object] = set()
        found = []
        for entry in self._entries:
            link = entry.link
            if link is None:
                found.append(entry)
            elif link not in links:
                links.add(link)
                found.append(entry)
        return found

    def _finish(self) -> None:
        """The step that was under way is over."""
        if self._choosing:
            self.chooser.done(self._name, self._entry, self._touched)

    def _start(self, name: int, entry: Entry | None, touched: Footprint) -> None:
        self._name, self._children, self._entry, self._touched = name, 0, entry, touched

    def _stay_with_worker(self, entry: Entry) -> None:
        """Raises :class:`GrainError` unless what goes on now is of the worker of the step."""
        worker = entry.event.worker  # type: ignore[attr-defined]
        touched = self._touched
        if EVERYTHING not in touched and (worker is None or worker.name not in touched):
            at = next((f" at {each}" for each in touched if isinstance(each, str)), "")
            of = "" if worker is None else f" of process {worker.name}"
            name = getattr(entry.event, "name", "a timer")
            raise GrainError(f"a message that arrives{at} lets `{name}`{of} go on")

    def _touch_owner(self, entry: Entry) -> None:
        event = entry.event
        if type(event) is not Delivery:  # whom that is for its network knows
            worker = event.worker  # type: ignore[attr-defined]
            self.touch(EVERYTHING if worker is None else worker.name)

    def _take(self, entry: Entry) -> None:
        """Take something out of the queue: its time has come."""
        self._entries.remove(entry)
        if entry.due_s > self.now:
            self.now = entry.due_s

    def _sweep(self) -> None:
        """Forget what was cancelled."""
        self._is_swept = True
        self._entries = [entry for entry in self._entries if not entry.event.cancelled]


class _AtEachPoint:
    """Lets the running task make way at each scheduling point, as long as somebody chooses."""

    preemptive = True

    def __init__(self, time: ChosenTime) -> None:
        self._time = time

    def priority(self, event: Any, due_s: float) -> float:
        return 0.0

    def yields(self) -> bool:
        return self._time.choosing


def _in_time(entry: Entry) -> tuple[float, int]:
    return entry.due_s, entry.number


def _when_quiet(entry: Entry) -> tuple[float, int]:
    return entry.due_s, entry.name
