"""Waiting for the first of several things: ends of processes, pipes, queues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from squall.real.runtime import Event, current_task


class Waitable(Protocol):
    #: set by the thing when it may have become ready
    watchers: list[Event]

    def is_ready(self) -> bool: ...


T = TypeVar("T", bound=Waitable)


def wait_for_any(things: Sequence[T], timeout: float | None = None) -> list[T]:
    """Those that are ready, once at least one is; none if ``timeout`` seconds pass first."""
    runtime = current_task().runtime
    deadline = None if timeout is None else runtime.now() + timeout
    in_time = True
    while True:
        ready = [thing for thing in things if thing.is_ready()]
        if ready or not things:
            return ready
        left = None if deadline is None else deadline - runtime.now()
        # What is left after a wait may, rounded, be too little to move the clock.
        if not in_time or (left is not None and left <= 0):
            return []
        any_ready = runtime.event(f"one of {', '.join(str(thing) for thing in things)}")
        for thing in things:
            thing.watchers.append(any_ready)
        try:
            in_time = any_ready.wait(left)
        finally:
            for thing in things:
                thing.watchers.remove(any_ready)
