"""Gathers of objects from all workers that are under way on one of them."""

from __future__ import annotations

from typing import Any

from squall.real.runtime import Runtime, current_task

#: the names that take part, and how many gathers of these names came before
SequenceId = tuple[str, int]


class AllGatherStates:
    """One gather on one worker: what has come so far, and whether all has come."""

    def __init__(self, runtime: Runtime | None = None, what: object = "all_gather") -> None:
        """``runtime``: that of the running task, if none is given."""
        self.gathered_objects: dict[str, Any] = {}
        self.proceed_signal = (runtime or current_task().runtime).event(what)
