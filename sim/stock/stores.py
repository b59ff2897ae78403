"""Stores of ``torch.distributed`` (TCPStore, FileStore) on the engine ``torch``: the keys and values
are the coordinator's. They stand for the rendezvous service, whose operations take no time."""

from __future__ import annotations

from collections import deque
from typing import Any

from torch.distributed import DistStoreError, QueueEmptyError

from squall.sim.scripts.waits import Waits
from squall.sim.stock.cluster import NativeCluster
from squall.sim.stock.worker import NativeWorker

_FIRST_FREE_PORT = 20001


class Stores:
    """Answers what sim/stock/store_guest.py asks."""

    def __init__(self, cluster: NativeCluster) -> None:
        self._cluster = cluster
        self._waits = Waits(cluster)
        self._stores: dict[str, dict[str, bytes]] = {}
        self._queues: dict[str, dict[str, deque[bytes]]] = {}
        self._next_port = _FIRST_FREE_PORT - 1
        for word in ("set", "wait", "add", "check", "compare", "delete", "keys", "port",
                     "push", "pop", "length"):  # fmt: skip
            cluster.answers[f"store {word}"] = getattr(self, f"_{word}")

    def _values(self, name: str) -> dict[str, bytes]:
        return self._stores.setdefault(name, {})

    def _queue(self, name: str, key: str) -> deque[bytes]:
        return self._queues.setdefault(name, {}).setdefault(key, deque())

    def _has(self, name: str, key: str) -> bool:
        return key in self._values(name) or bool(self._queues.get(name, {}).get(key))

    def _set(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        name, key, value = rest
        self._values(name)[key] = value
        self._cluster.answer(worker, question, None)
        self._waits.look()

    def _wait(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        name, keys, value, timeout_s = rest
        values = self._values(name)

        def there() -> tuple[bytes | None] | None:
            if all(self._has(name, key) for key in keys):
                return (values[keys[0]] if value else None,)
            return None

        text = f"wait timeout after {round(timeout_s * 1000)}ms, keys: {', '.join(keys)}"
        self._waits.until(worker, question, there, timeout_s, lambda: DistStoreError(text))

    def _add(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        name, key, amount = rest
        total = int(self._values(name).get(key, b"0")) + amount
        self._values(name)[key] = str(total).encode()
        self._cluster.answer(worker, question, total)
        self._waits.look()

    def _check(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        name, keys = rest
        self._cluster.answer(worker, question, all(self._has(name, key) for key in keys))

    def _push(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        name, key, value = rest
        self._queue(name, key).append(value)
        self._cluster.answer(worker, question, None)
        self._waits.look()

    def _pop(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        name, key, timeout_s = rest
        queue = self._queue(name, key)

        def take() -> tuple[bytes] | None:
            return (queue.popleft(),) if queue else None

        def late() -> Exception:
            if timeout_s == 0:
                return QueueEmptyError(f"queue {key} is empty")
            return DistStoreError(f"wait timeout after {round(timeout_s * 1000)}ms, keys: {key}")

        self._waits.until(worker, question, take, timeout_s, late)

    def _length(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        self._cluster.answer(worker, question, len(self._queue(*rest)))

    def _compare(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        name, key, expected, desired = rest
        current = self._values(name).get(key)
        if current == expected or (current is None and not expected):
            current = self._values(name)[key] = desired
        self._cluster.answer(worker, question, expected if current is None else current)
        self._waits.look()

    def _delete(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        name, key = rest
        found = self._values(name).pop(key, None)
        self._cluster.answer(worker, question, found is not None)

    def _keys(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        self._cluster.answer(worker, question, list(self._values(rest[0])))

    def _port(self, worker: NativeWorker, question: int, _: tuple[Any, ...]) -> None:
        self._next_port += 1
        self._cluster.answer(worker, question, self._next_port)
