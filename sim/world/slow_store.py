"""A store that takes its time, as one on the network does: workers that wait for one key do not go on
at one moment."""

from __future__ import annotations

from random import Random
from typing import Any

from squall.real.rpc.store import Store
from squall.real.runtime import Runtime, current_task


class SlowStore(Store):
    """Each answer takes up to ``longest_s`` of virtual time, drawn from ``stream``. Questions that
    never block are answered at once."""

    def __init__(self, runtime: Runtime, stream: Random, *, longest_s: float) -> None:
        super().__init__(runtime)
        self._stream = stream
        self._longest_s = longest_s

    def _travel(self) -> None:
        current_task().runtime.sleep(self._stream.uniform(0.0, self._longest_s))

    def set(self, key: str, value: Any) -> None:
        super().set(key, value)
        self._travel()

    def add(self, key: str, amount: int) -> int:
        value = super().add(key, amount)
        self._travel()
        return value

    def get(self, key: str, timeout_s: float | None = None, *, unless: str | None = None) -> Any:
        value = super().get(key, timeout_s, unless=unless)
        self._travel()
        return value

    def wait(self, keys: list[str], timeout_s: float | None = None) -> None:
        super().wait(keys, timeout_s)
        self._travel()
