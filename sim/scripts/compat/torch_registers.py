"""Registers that torch keeps once a process, one for each simulated process.

A module of the user's runs once in each of them, and what it registers under a name would be
registered twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, MutableMapping
from typing import Any

from torch.utils.data import IterDataPipe, MapDataPipe

from squall.sim.scripts.compat.process import current_process_or_none


class OfEachProcess(MutableMapping[str, Any]):
    """A register as the running process sees it: what was there before the run, and its own."""

    def __init__(self, before: MutableMapping[str, Any]) -> None:
        self._before = before

    def _seen(self) -> MutableMapping[str, Any]:
        process = current_process_or_none()
        if process is None:
            return self._before
        seen: MutableMapping[str, Any] = process.locals.setdefault(self, dict(self._before))
        return seen

    def __getitem__(self, name: str) -> Any:
        return self._seen()[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._seen()[name] = value

    def __delitem__(self, name: str) -> None:
        del self._seen()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._seen())

    def __len__(self) -> int:
        return len(self._seen())

    __hash__ = object.__hash__  # a key of each process's state


@contextlib.contextmanager
def one_for_each_process() -> Iterator[None]:
    """While this is open, each simulated process has its own names of data pipes."""
    kinds: tuple[Any, ...] = (IterDataPipe, MapDataPipe)
    before = [kind.functions for kind in kinds]
    for kind, functions in zip(kinds, before, strict=True):
        kind.functions = OfEachProcess(functions)
    try:
        yield
    finally:
        for kind, functions in zip(kinds, before, strict=True):
            kind.functions = functions
