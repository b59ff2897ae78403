"""A key-value store that workers meet at, with the blocking semantics of torch's TCPStore.

It stands for the rendezvous service, which is not under test: its operations take no time.
"""

from __future__ import annotations

from typing import Any

from squall.real.runtime import Event, Runtime


class StoreTimeoutError(RuntimeError):
    """A key did not appear in time."""


class StoreClosedError(RuntimeError):
    """A key will not appear: whoever was to set it has gone."""


class Store:
    """Keys and values shared by the workers of one group.

    ``get`` and ``wait`` block until the keys are there. Timeouts are seconds; None: no limit.
    """

    def __init__(self, runtime: Runtime, *, timeout_s: float | None = None) -> None:
        self._runtime = runtime
        self._lock = runtime.lock("store")
        self._values: dict[str, Any] = {}
        self._awaited: dict[str, list[Event]] = {}
        self.timeout_s = timeout_s

    def set(self, key: str, value: Any) -> None:
        with self._lock:
            self._values[key] = value
            waiting = self._awaited.pop(key, [])
        for event in waiting:
            event.set()

    def add(self, key: str, amount: int) -> int:
        """Add to a counter (absent: 0, or what was set as text) and give its new value."""
        with self._lock:
            value = int(self._values.get(key, 0)) + amount
            self._values[key] = value
            waiting = self._awaited.pop(key, [])
        for event in waiting:
            event.set()
        return int(value)

    def first(self, key: str, value: Any) -> Any:
        """The value of ``key``: ``value``, unless somebody was quicker."""
        with self._lock:
            if key in self._values:
                return self._values[key]
            self._values[key] = value
            waiting = self._awaited.pop(key, [])
        for event in waiting:
            event.set()
        return value

    def check(self, keys: list[str]) -> bool:
        with self._lock:
            return all(key in self._values for key in keys)

    def get(self, key: str, timeout_s: float | None = None, *, unless: str | None = None) -> Any:
        """The value of ``key``. Raises StoreTimeoutError if it does not appear in time, StoreClosedError if
        the key ``unless`` is there, or comes, and it is not."""
        limit = timeout_s if timeout_s is not None else self.timeout_s
        deadline = None if limit is None else self._runtime.now() + limit
        return self._await(key, limit, deadline, unless)

    def peek(self, key: str, default: Any = None) -> Any:
        """The value of ``key`` now, or ``default``; never blocks."""
        with self._lock:
            return self._values.get(key, default)

    def delete(self, key: str) -> bool:
        with self._lock:
            return self._values.pop(key, self) is not self

    def wait(self, keys: list[str], timeout_s: float | None = None) -> None:
        """Block until all keys are there. Raises StoreTimeoutError."""
        limit = timeout_s if timeout_s is not None else self.timeout_s
        deadline = None if limit is None else self._runtime.now() + limit
        for key in keys:
            self._await(key, limit, deadline)

    def _await(
        self, key: str, limit: float | None, deadline: float | None, unless: str | None = None
    ) -> Any:
        """The value of ``key``, which has to be there at ``deadline``, ``limit`` after the start."""
        while True:
            with self._lock:
                if key in self._values:
                    return self._values[key]
                if unless in self._values:
                    raise StoreClosedError(f"{unless} is there, and {key} is not")
                event = self._runtime.event(f"key {key} of the store")
                for each in filter(None, (key, unless)):
                    self._awaited.setdefault(each, []).append(event)
            left = None if deadline is None else deadline - self._runtime.now()
            if left is not None and (left <= 0 or not event.wait(left)):
                raise StoreTimeoutError(
                    f"wait timeout after {int((limit or 0) * 1000)}ms, keys: {key}"
                )
            if left is None:
                event.wait()

    def barrier(self, name: str, members: int, timeout_s: float | None = None) -> None:
        """Block until ``members`` callers have come to the barrier of this name.

        A name serves once. Raises StoreTimeoutError.
        """
        if self.add(f"{name}/arrived", 1) == members:
            self.set(f"{name}/open", True)
        self.wait([f"{name}/open"], timeout_s)

    def prefixed(self, prefix: str) -> PrefixStore:
        return PrefixStore(self, prefix)


class PrefixStore(Store):
    """A store's keys under a prefix."""

    def __init__(self, base: Store, prefix: str) -> None:
        self._base = base
        self._prefix = prefix
        self.timeout_s = base.timeout_s

    def set(self, key: str, value: Any) -> None:
        self._base.set(f"{self._prefix}/{key}", value)

    def add(self, key: str, amount: int) -> int:
        return self._base.add(f"{self._prefix}/{key}", amount)

    def first(self, key: str, value: Any) -> Any:
        return self._base.first(f"{self._prefix}/{key}", value)

    def check(self, keys: list[str]) -> bool:
        return self._base.check([f"{self._prefix}/{key}" for key in keys])

    def get(self, key: str, timeout_s: float | None = None, *, unless: str | None = None) -> Any:
        unless = unless and f"{self._prefix}/{unless}"
        return self._base.get(f"{self._prefix}/{key}", self._limit(timeout_s), unless=unless)

    def peek(self, key: str, default: Any = None) -> Any:
        return self._base.peek(f"{self._prefix}/{key}", default)

    def delete(self, key: str) -> bool:
        return self._base.delete(f"{self._prefix}/{key}")

    def wait(self, keys: list[str], timeout_s: float | None = None) -> None:
        self._base.wait([f"{self._prefix}/{key}" for key in keys], self._limit(timeout_s))

    def _limit(self, timeout_s: float | None) -> float | None:
        return timeout_s if timeout_s is not None else self.timeout_s
