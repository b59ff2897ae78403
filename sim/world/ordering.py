"""What goes first of all that is ready at one instant: orders other than first come, first served.

An order gives a priority to everything that is queued (the smaller goes first, ties by age) and
says, at each scheduling point of a task, whether the task lets others go first.
"""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

from squall.sim.world.primitives import Scheduler
from squall.sim.world.schedule import Schedule
from squall.sim.world.streams import NamedStream
from squall.sim.world.virtual_time import NORMAL, Ordering


class RandomOrder:
    """Any order, and now and then a task makes way wherever it can."""

    preemptive = True

    def __init__(self, stream: random.Random, preemption: float) -> None:
        self._stream = stream
        self._preemption = preemption

    def priority(self, event: Any, due_s: float) -> float:
        return NORMAL + self._stream.random()

    def yields(self) -> bool:
        return self._stream.random() < self._preemption


class FifoExcept:
    """First come, first served, but for the deviations that a schedule names."""

    def __init__(self, schedule: Schedule) -> None:
        self._late = dict(schedule.late)
        self._yields = frozenset(schedule.yields)
        self.preemptive = bool(schedule.yields)
        self._queued = -1
        self._points = -1

    def priority(self, event: Any, due_s: float) -> float:
        self._queued += 1
        return NORMAL + self._late.get(self._queued, 0.0)

    def yields(self) -> bool:
        self._points += 1
        return self._points in self._yields


class PctOrder:
    """Random priorities with change points: see :class:`squall.sim.world.schedule.Schedule`.

    A task keeps its priority for life, a message has one of its own. Each is drawn by name
    (``seed / pct / task 5``, ``seed / pct / link 0->2 / BACKWARD_AUTOGRAD_REQ / 3``).
    """

    preemptive = True

    def __init__(self, runtime: Scheduler, *, depth: int, steps: int) -> None:
        self._runtime = runtime
        self._stream = NamedStream(runtime.seed)
        points = self._stream.named(b"pct/change points")
        self._changes = sorted(int(points.random() * steps) for _ in range(depth - 1))
        self._step = -1
        self._tasks: dict[int, float] = {}
        self._messages: dict[tuple[int, int, int], int] = {}
        #: what fell at a change point: below all others, the later the lower
        self._lowest = NORMAL + 1.0

    def priority(self, event: Any, due_s: float) -> float:
        message = getattr(event, "message", None)
        if self._changes and self._is_change():
            if message is not None:
                return self._lowest
            self._tasks[self._runtime.running.id] = self._lowest
        if message is not None:
            key = (message.src, message.dst, int(message.type))
            count = self._messages.get(key, 0)
            self._messages[key] = count + 1
            return self._drawn(b"pct/link %d->%d/%x/%d" % (*key, count))
        id = getattr(event, "id", None)
        return NORMAL if id is None else self._of_task(id)

    def yields(self) -> bool:
        runtime = self._runtime
        if self._changes and self._is_change():
            self._tasks[runtime.running.id] = self._lowest
        first = runtime.env.next_priority()
        return first is not None and first < self._of_task(runtime.running.id)

    def _is_change(self) -> bool:
        """Count a step; whether it is a change point."""
        self._step += 1
        if self._step < self._changes[0]:
            return False
        self._changes.pop(0)
        self._lowest += 1.0
        return True

    def _of_task(self, id: int) -> float:
        priority = self._tasks.get(id)
        if priority is None:
            priority = self._tasks[id] = self._drawn(b"pct/task %d" % id)
        return priority

    def _drawn(self, name: bytes) -> float:
        return NORMAL + self._stream.named(name).random()


class Recorded:
    """An order, and a log of how it deviates from first come, first served."""

    def __init__(self, inner: Ordering, *, timeless: bool = False) -> None:
        self._timeless = timeless
        self._inner = inner
        self.preemptive = inner.preemptive
        #: of everything queued: its priority above NORMAL, and since when it could go
        self._queued: list[tuple[float, float]] = []
        self._points = -1
        self._yields: list[int] = []

    def priority(self, event: Any, due_s: float) -> float:
        priority = self._inner.priority(event, due_s)
        self._queued.append((priority - NORMAL, due_s))
        return priority

    def yields(self) -> bool:
        self._points += 1
        if self._inner.yields():
            self._yields.append(self._points)
            return True
        return False

    def schedule(self) -> Schedule:
        """The deviations, as a schedule that makes the same run."""
        instants: dict[float, list[tuple[int, float]]] = {}
        for number, (late, due_s) in enumerate(self._queued):
            instants.setdefault(due_s, []).append((number, late))
        deviations = [
            each
            for together in instants.values()
            if any(a[1] > b[1] for a, b in pairwise(together))
            for each in together
            if each[1] > 0
        ]
        return Schedule(
            late=tuple(sorted(deviations)), yields=tuple(self._yields), timeless=self._timeless
        )
