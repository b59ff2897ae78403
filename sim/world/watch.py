"""Watching a run as it goes: each random draw and each event.

A run that nobody watches pays nothing for it: streams and traces look for a watcher when they
are made, not when they are used.

    first = Recorder()
    with watching(first):
        play(scenario)
    with watching(Comparer(first.steps)):    # raises Diverged where the second run parts from it
        play(scenario)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from random import Random
from types import CodeType, FrameType
from typing import Any, Literal, NamedTuple

from squall.sim.world.places import CodePlace, file_name
from squall.sim.world.primitives import Scheduler
from squall.sim.world.virtual_time import VirtualTime

#: frames of a stack that are kept, the innermost
DEPTH = 24
#: files whose frames say how a step was recorded, not what made it
_HERE = ("sim/world/watch.py", "sim/world/trace.py", "sim/world/streams.py", "/random.py")

#: where a step was taken: code and instruction of each frame, the innermost first
Stack = tuple[tuple[CodeType, int], ...]


#: how a key is used: whether it is there, or its value
How = Literal["look", "read", "add", "write", "delete"]


class KeyUsed(NamedTuple):
    """A key of a store that processes share was used: how, by which method, and at which line of the user's."""

    store: str
    key: str
    how: How
    method: str
    place: CodePlace


class Watcher:
    """Told of every draw and every event of the runs that start while it is installed."""

    def __init__(self) -> None:
        #: the runtime of the run that is watched, once there is one
        self.runtime: Scheduler | None = None

    def event(self, record: tuple[Any, ...]) -> None:
        """An event: (virtual time, worker, task, type, values)."""

    def draw(self, name: object, value: object) -> None:
        """A random number, and the name of what it decides."""

    def stream(self, stream: Random) -> None:
        """A generator was made. Whoever wants the run to go on otherwise may seed it again."""

    def clock(self) -> VirtualTime | None:
        """The clock and queue that the next run is to have; None: one as always."""
        return None

    def faults(self, heal: Callable[[], object]) -> None:
        """There is a fault plan. Calling ``heal`` ends all of its faults."""

    def raised(self, error: BaseException) -> None:
        """That has ended a process of a script."""

    def thread_raised(self, error: BaseException) -> None:
        """That has ended the running thread of a script, not its process."""

    def stored(self, used: KeyUsed) -> None:
        """The running process has just done that."""

    def stop(self, why: BaseException) -> None:
        """Let the run end with ``why`` before anything else happens."""
        assert self.runtime is not None, "a run has a runtime"
        self.runtime.fail(why)


_current: Watcher | None = None


def current() -> Watcher | None:
    """Who watches the runs that start now."""
    return _current


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Let ``watcher`` see the runs that start in this block."""
    global _current
    before, _current = _current, watcher
    try:
        yield
    finally:
        _current = before


class WatchedRecords(list[Any]):
    """The events of a trace that somebody watches."""

    def __init__(self, watcher: Watcher) -> None:
        super().__init__()
        self._watcher = watcher

    def append(self, record: Any) -> None:
        super().append(record)
        self._watcher.event(record)


# -- the same run twice ---------------------------------------------------------------------------


class Observed(NamedTuple):
    """One thing that a run did. ``what`` is an event as plain values, or a draw."""

    time_s: float
    what: tuple[Any, ...]
    stack: Stack

    def __str__(self) -> str:
        if self.what[0] == "draw":
            _, name, value = self.what
            text = name.decode() if isinstance(name, bytes) else name
            return f"a draw for {text}: {value!r}"
        _, worker, task, type, values = self.what
        return f"w{worker} task {task}: {type} {values!r}"


class Recorder(Watcher):
    """Keeps the steps of a run.

    ``depth``: frames of each step's stack that are kept, the innermost. Nothing else costs as
    much here.
    """

    def __init__(self, *, depth: int = DEPTH) -> None:
        super().__init__()
        self.steps: list[Observed] = []
        self.depth = depth
        self._stacks: dict[Stack, Stack] = {}

    def event(self, record: tuple[Any, ...]) -> None:
        time_s, worker, task, type, values = record
        self._step(time_s, ("event", worker, task, type.name, values))

    def draw(self, name: object, value: object) -> None:
        time_s = self.runtime.now() if self.runtime is not None else 0.0
        self._step(time_s, ("draw", name, value))

    def _step(self, time_s: float, what: tuple[Any, ...]) -> None:
        self.steps.append(Observed(time_s, what, self._stack()))

    def _stack(self) -> Stack:
        """Where the running code is; equal stacks are one object."""
        frames: list[tuple[CodeType, int]] = []
        frame: FrameType | None = sys._getframe(3)
        while frame is not None and len(frames) < self.depth:
            code = frame.f_code
            if frames or not code.co_filename.endswith(_HERE):
                frames.append((code, frame.f_lasti))
            frame = frame.f_back
        stack = tuple(frames)
        return self._stacks.setdefault(stack, stack)


class Divergence(NamedTuple):
    """The first step at which two runs part; None where a run had ended."""

    number: int
    one: Observed | None
    other: Observed | None
    #: events before it, which both have
    events: int = 0

    @property
    def time_s(self) -> float:
        """Virtual time of the step, in the run that came to it first."""
        return min(step.time_s for step in (self.one, self.other) if step is not None)

    def __str__(self) -> str:
        return (
            f"event {self.events} at t={self.time_s:.6f}: the first run has {_said(self.one)}, "
            f"the second {_said(self.other)}"
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values: event number, virtual time in seconds, and both sides."""
        return {
            "step": self.number,
            "event": self.events,
            "time_s": self.time_s,
            "first": _side(self.one),
            "second": _side(self.other),
        }


class Diverged(BaseException):
    """The second run has just parted from the first. No code under test handles it."""

    def __init__(self, divergence: Divergence) -> None:
        super().__init__(str(divergence))
        self.divergence = divergence


class Comparer(Recorder):
    """Compares a run with the steps of an earlier one, and stops it where they part.

    It keeps no steps, and looks at a stack only where the runs part.
    """

    def __init__(self, first: Sequence[Observed]) -> None:
        super().__init__()
        self._first = first
        self._count = 0
        self._events = 0
        self._over = False

    def _step(self, time_s: float, what: tuple[Any, ...]) -> None:
        if self._over:
            return
        number = self._count
        one = self._first[number] if number < len(self._first) else None
        if one is not None and one.what == what and one.time_s == time_s:
            self._count += 1
            self._events += what[0] == "event"
            return
        self._over = True
        other = Observed(time_s, what, self._stack())
        self.stop(Diverged(Divergence(number, one, other, self._events)))

    def finish(self) -> None:
        """Raises :class:`Diverged` if the second run has ended before the first."""
        number = self._count
        if not self._over and number < len(self._first):
            raise Diverged(Divergence(number, self._first[number], None, self._events))


def stack_lines(step: Observed | None) -> list[str]:
    """Where a step was taken, the outermost frame first, as Python prints stacks."""
    if step is None:
        return []
    return [
        f'File "{code.co_filename}", line {_line(code, at)}, in {code.co_name}'
        for code, at in reversed(step.stack)
    ]


def _line(code: CodeType, at: int) -> int:
    """The line of an instruction, given its place in bytes: two for each one."""
    positions = next(islice(code.co_positions(), max(at, 0) // 2, None), (None,))
    return positions[0] or code.co_firstlineno


def _said(step: Observed | None) -> str:
    if step is None:
        return "ended"
    if not step.stack:
        return str(step)
    code, at = step.stack[0]
    return f"{step} ({file_name(code.co_filename)}:{_line(code, at)} in {code.co_name})"


def _side(step: Observed | None) -> dict[str, Any] | None:
    return None if step is None else {"step": str(step), "stack": stack_lines(step)}
