"""Stores of ``torch.distributed`` (TCPStore, FileStore): the keys and values are the coordinator's. They stand for
the rendezvous service, whose operations take no time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from torch.distributed import DistStoreError, QueueEmptyError

from squall.sim.scripts.waits import Coordinator, Waits
from squall.sim.world.places import CodePlace
from squall.sim.world.watch import How, KeyUsed, current

_FIRST_FREE_PORT = 20001


class _Asked(NamedTuple):
    """An operation of a store: the question that it is, and what the process called for it at which line."""

    worker: Any
    question: Any
    store: str
    method: str
    place: CodePlace


class Stores:
    """Answers what :class:`~squall.sim.scripts.store_handles.StoreHandle` asks."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._waits = Waits(coordinator)
        self._stores: dict[str, dict[str, bytes]] = {}
        self._queues: dict[str, dict[str, deque[bytes]]] = {}
        self._next_port = _FIRST_FREE_PORT - 1
        coordinator.answers["store port"] = self._port
        for word in ("set", "get", "wait", "add", "append", "check", "compare", "delete", "keys",
                     "push", "pop", "length"):  # fmt: skip
            does = getattr(self, f"_{word}")
            coordinator.answers[f"store {word}"] = partial(self._do, does)

    def _do(
        self,
        does: Callable[..., None],
        worker: Any,
        question: Any,
        store: str,
        caller: tuple[str, CodePlace],
        *words: Any,
    ) -> None:
        does(_Asked(worker, question, store, *caller), *words)

    def _answer(self, asked: _Asked, value: Any) -> None:
        self._coordinator.answer(asked.worker, asked.question, value)

    def _used(self, asked: _Asked, keys: Sequence[str], how: How) -> None:
        """That was done just now, for whoever watches."""
        watcher = current()
        if watcher is not None and asked.place.file:
            for key in keys:
                used = KeyUsed(asked.store, key, how, asked.method, asked.place)
                self._coordinator.say(asked.worker, asked.question, partial(watcher.stored, used))

    def _values(self, name: str) -> dict[str, bytes]:
        return self._stores.setdefault(name, {})

    def _queue(self, name: str, key: str) -> deque[bytes]:
        return self._queues.setdefault(name, {}).setdefault(key, deque())

    def _has(self, name: str, key: str) -> bool:
        return key in self._values(name) or bool(self._queues.get(name, {}).get(key))

    def _set(self, asked: _Asked, key: str, value: bytes) -> None:
        self._values(asked.store)[key] = value
        self._used(asked, [key], "write")
        self._answer(asked, None)
        self._waits.look()

    def _get(self, asked: _Asked, key: str, timeout_s: float) -> None:
        values = self._values(asked.store)
        self._until_there(asked, [key], timeout_s, "read", lambda: values.get(key, b""))

    def _wait(self, asked: _Asked, keys: list[str], timeout_s: float) -> None:
        self._until_there(asked, keys, timeout_s, "look", lambda: None)

    def _until_there(
        self,
        asked: _Asked,
        keys: list[str],
        timeout_s: float,
        how: How,
        value: Callable[[], bytes | None],
    ) -> None:
        def there() -> tuple[bytes | None] | None:
            if self.missing(asked.store, keys):
                return None
            self._used(asked, keys, how)
            return (value(),)

        late = lambda: DistStoreError(_late(asked, keys, timeout_s))  # noqa: E731
        self._waits.until(asked.worker, asked.question, there, timeout_s, late)

    def _add(self, asked: _Asked, key: str, amount: int) -> None:
        values = self._values(asked.store)
        total = int(values.get(key, b"0")) + amount
        values[key] = str(total).encode()
        self._used(asked, [key], "add" if amount else "read")
        self._answer(asked, total)
        self._waits.look()

    def _append(self, asked: _Asked, key: str, value: bytes) -> None:
        values = self._values(asked.store)
        values[key] = values.get(key, b"") + value
        self._used(asked, [key], "add")
        self._answer(asked, None)
        self._waits.look()

    def _check(self, asked: _Asked, keys: list[str]) -> None:
        self._used(asked, keys, "look")
        self._answer(asked, all(self._has(asked.store, key) for key in keys))

    def _push(self, asked: _Asked, key: str, value: bytes) -> None:
        self._queue(asked.store, key).append(value)
        self._used(asked, [key], "write")
        self._answer(asked, None)
        self._waits.look()

    def _pop(self, asked: _Asked, key: str, timeout_s: float) -> None:
        queue = self._queue(asked.store, key)

        def take() -> tuple[bytes] | None:
            if not queue:
                return None
            self._used(asked, [key], "write")
            return (queue.popleft(),)

        def late() -> Exception:
            if timeout_s == 0:
                self._used(asked, [key], "read")
                return QueueEmptyError("queue is empty")
            return DistStoreError(_late(asked, [key], timeout_s))

        self._waits.until(asked.worker, asked.question, take, timeout_s, late)

    def _length(self, asked: _Asked, key: str) -> None:
        self._used(asked, [key], "read")
        self._answer(asked, len(self._queue(asked.store, key)))

    def _compare(self, asked: _Asked, key: str, expected: bytes, desired: bytes) -> None:
        values = self._values(asked.store)
        value = values.get(key)
        is_set = value == expected or (value is None and not expected)
        if is_set:
            value = values[key] = desired
        self._used(asked, [key], "write" if is_set else "read")
        self._answer(asked, expected if value is None else value)
        self._waits.look()

    def _delete(self, asked: _Asked, key: str) -> None:
        found = self._values(asked.store).pop(key, None)
        self._used(asked, [key], "look" if found is None else "delete")
        self._answer(asked, found is not None)

    def _keys(self, asked: _Asked) -> None:
        self._answer(asked, list(self._values(asked.store)))

    def _port(self, worker: Any, question: Any) -> None:
        self._next_port += 1
        self._coordinator.answer(worker, question, self._next_port)

    def missing(self, name: str, keys: Sequence[str]) -> list[str]:
        """Which of these keys a store does not have now."""
        return [key for key in keys if not self._has(name, key)]


def _late(asked: _Asked, keys: Sequence[str], timeout_s: float) -> str:
    """What is said of a wait for them that took too long. A TCPStore puts a slash before each key, and whoever meets does
    so at one."""
    slash = "" if asked.store.startswith("FileStore ") else "/"
    return f"wait timeout after {round(timeout_s * 1000)}ms, keys: {', '.join(slash + key for key in keys)}"
