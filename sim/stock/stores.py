"""Stores of ``torch.distributed`` (TCPStore, FileStore) on the engine ``torch``: the keys and values
are the coordinator's. They stand for the rendezvous service, whose operations take no time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch.distributed import DistStoreError

from squall.sim.stock.cluster import NativeCluster
from squall.sim.stock.worker import NativeWorker
from squall.sim.world.primitives import SimTimer

_FIRST_FREE_PORT = 20001


@dataclass(eq=False)
class _Wait:
    worker: NativeWorker
    question: int
    keys: list[str]
    #: give its value, not None
    value: bool
    timer: SimTimer


class Stores:
    """Answers what sim/stock/store_guest.py asks."""

    def __init__(self, cluster: NativeCluster) -> None:
        self._cluster = cluster
        self._stores: dict[str, dict[str, bytes]] = {}
        self._waits: dict[str, list[_Wait]] = {}
        self._next_port = _FIRST_FREE_PORT - 1
        for word in ("set", "wait", "add", "check", "compare", "delete", "count", "port"):
            cluster.answers[f"store {word}"] = getattr(self, f"_{word}")

    def _values(self, name: str) -> dict[str, bytes]:
        return self._stores.setdefault(name, {})

    def _put(self, name: str, key: str, value: bytes) -> None:
        values = self._values(name)
        values[key] = value
        for wait in list(self._waits.get(name, ())):
            if all(each in values for each in wait.keys):
                wait.timer.cancel()
                self._waits[name].remove(wait)
                found = values[wait.keys[0]] if wait.value else None
                self._cluster.answer(wait.worker, wait.question, found)

    def _set(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        self._put(*rest)
        self._cluster.answer(worker, question, None)

    def _wait(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        name, keys, value, timeout_s = rest
        values = self._values(name)
        if all(key in values for key in keys):
            self._cluster.answer(worker, question, values[keys[0]] if value else None)
            return

        def late() -> None:
            self._waits[name].remove(wait)
            text = f"wait timeout after {round(timeout_s * 1000)}ms, keys: {', '.join(keys)}"
            self._cluster.answer(worker, question, DistStoreError(text))

        timer = self._cluster.runtime.call_later(timeout_s, late)
        wait = _Wait(worker, question, keys, value, timer)
        self._waits.setdefault(name, []).append(wait)

    def _add(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        name, key, amount = rest
        total = int(self._values(name).get(key, b"0")) + amount
        self._put(name, key, str(total).encode())
        self._cluster.answer(worker, question, total)

    def _check(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        name, keys = rest
        self._cluster.answer(worker, question, all(key in self._values(name) for key in keys))

    def _compare(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        name, key, expected, desired = rest
        current = self._values(name).get(key)
        if current == expected or (current is None and not expected):
            self._put(name, key, desired)
            current = desired
        self._cluster.answer(worker, question, expected if current is None else current)

    def _delete(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        name, key = rest
        found = self._values(name).pop(key, None)
        self._cluster.answer(worker, question, found is not None)

    def _count(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        self._cluster.answer(worker, question, len(self._values(rest[0])))

    def _port(self, worker: NativeWorker, question: int, _: tuple[Any, ...]) -> None:
        self._next_port += 1
        self._cluster.answer(worker, question, self._next_port)
