"""ThreadRuntime: the runtime seam answered by real threads and real time."""

from __future__ import annotations

import heapq
import itertools
import logging
import random as _random
import threading
import time
from collections.abc import Callable
from typing import Any

from squall.real.runtime import (
    Event,
    Lock,
    Runtime,
    Task,
    TaskOwner,
    Timer,
    current_task_or_none,
    enter_task,
)

logger = logging.getLogger(__name__)


class _ThreadLock(Lock):
    def __init__(self) -> None:
        self._lock = threading.Lock()

    def acquire(self, timeout: float | None = None) -> bool:
        return self._lock.acquire(timeout=-1 if timeout is None else timeout)

    def release(self) -> None:
        self._lock.release()


class _ThreadEvent(Event):
    def __init__(self, what: object) -> None:
        self.what = what
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        return self._event.wait(timeout)


class _ThreadTimer(Timer):
    def __init__(self, fn: Callable[[], object]) -> None:
        self.fn: Callable[[], object] | None = fn

    def cancel(self) -> None:
        self.fn = None


class ThreadRuntime(Runtime):
    """Tasks are daemon threads; timers fire on one thread of their own."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._started = time.monotonic()
        self._ids = itertools.count()
        self._timer_ids = itertools.count()
        self._timers: list[tuple[float, int, _ThreadTimer]] = []
        self._timers_changed = threading.Condition()
        self._closed = False
        self._timer_thread = threading.Thread(target=self._run_timers, daemon=True, name="timers")
        self._timer_thread.start()

    def now(self) -> float:
        return time.monotonic() - self._started

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def spawn(
        self,
        fn: Callable[..., object],
        *args: Any,
        name: str,
        worker: TaskOwner | None = None,
        daemon: bool = True,
        cause: int | None = None,
    ) -> Task:
        here = current_task_or_none()
        if worker is None:
            worker = here.worker if here is not None else None
        task = Task(self, next(self._ids), name, worker, daemon)
        if here is not None:
            task.cause = here.cause
        if cause is not None:
            task.cause = cause

        def run() -> None:
            enter_task(task)
            try:
                fn(*args)
            except Exception:
                logger.exception("%r died", task)

        threading.Thread(target=run, daemon=True, name=name).start()
        return task

    def task(self, name: str, worker: TaskOwner | None) -> Task:
        """A task for a thread that already runs; see :func:`squall.real.runtime.run_as`."""
        return Task(self, next(self._ids), name, worker)

    def lock(self, what: object = "") -> Lock:
        return _ThreadLock()

    def event(self, what: object = "") -> Event:
        return _ThreadEvent(what)

    def call_later(self, delay_s: float, fn: Callable[[], object]) -> Timer:
        timer = _ThreadTimer(fn)
        with self._timers_changed:
            due = self.now() + delay_s
            heapq.heappush(self._timers, (due, next(self._timer_ids), timer))
            self._timers_changed.notify()
        return timer

    def random(self, *name: object) -> _random.Random:
        return _random.Random(repr((self._seed, *name)))

    def close(self) -> None:
        """Stop the timer thread. Timers that have not fired never will."""
        with self._timers_changed:
            self._closed = True
            self._timers_changed.notify()
        self._timer_thread.join()

    def _run_timers(self) -> None:
        while True:
            with self._timers_changed:
                if self._closed:
                    return
                if not self._timers:
                    self._timers_changed.wait()
                    continue
                wait_s = self._timers[0][0] - self.now()
                if wait_s > 0:
                    self._timers_changed.wait(wait_s)
                    continue
                timer = heapq.heappop(self._timers)[2]
                fn = timer.fn
            if fn is not None:
                try:
                    fn()
                except Exception:
                    logger.exception("a timer's callback raised")
