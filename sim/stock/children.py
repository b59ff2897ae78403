"""Processes that a script starts with ``multiprocessing.Process``, as the coordinator sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from squall.sim.scripts.compat.process import FIRST_PID
from squall.sim.stock.cluster import NativeCluster
from squall.sim.stock.worker import NativeWorker
from squall.sim.world.primitives import SimTimer


class Children:
    """Answers what sim/stock/script_children.py asks: a child is known by its number as a process.

    ``start``: makes one, given its parent, the pickled ``Process``, its environment, and
    whether a fork would make it. ``codes``: exit codes
    of processes that have ended by themselves, or by a signal of the script's.
    """

    def __init__(
        self,
        cluster: NativeCluster,
        start: Callable[[NativeWorker, bytes, dict[str, str], bool], NativeWorker],
    ) -> None:
        self._cluster = cluster
        self._start = start
        self.codes: dict[NativeWorker, int] = {}
        self._by_pid: dict[int, NativeWorker] = {}
        #: by child: who waits for its end, and until when
        self._waiting: dict[NativeWorker, list[tuple[NativeWorker, int, SimTimer | None]]] = {}
        for word in ("child", "child poll", "child wait", "child kill"):
            cluster.answers[word] = getattr(self, "_" + word.replace(" ", "_"))
        cluster.on_gone.append(self._gone)

    def _child(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        call, environ, forked = rest

        def start() -> None:
            pid = FIRST_PID + len(self._cluster.workers)
            self._by_pid[pid] = self._start(worker, call, environ, forked)
            self._cluster.answer(worker, question, pid)

        self._cluster.runtime.call_later(0.0, start)

    def _code(self, child: NativeWorker) -> int | None:
        if child.alive:
            return None
        code = self.codes.get(child, child.process.exit_code)
        return -9 if code is None else code

    def _child_poll(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        self._cluster.answer(worker, question, self._code(self._by_pid[rest[0]]))

    def _child_wait(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        pid, timeout_s = rest
        child = self._by_pid[pid]
        if not child.alive or timeout_s == 0:
            self._cluster.answer(worker, question, self._code(child))
            return
        timer = None
        if timeout_s is not None:

            def over() -> None:
                waiting = self._waiting[child]
                waiting[:] = [each for each in waiting if each[:2] != (worker, question)]
                self._cluster.answer(worker, question, None)

            timer = self._cluster.runtime.call_later(max(0.0, timeout_s), over)
        self._waiting.setdefault(child, []).append((worker, question, timer))

    def _child_kill(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        pid, signal = rest
        child = self._by_pid[pid]

        def end() -> None:
            if child.alive:
                self.codes[child] = -signal
                self._cluster.end(child)
            self._cluster.answer(worker, question, None)

        self._cluster.runtime.call_later(0.0, end)

    def _gone(self, child: NativeWorker) -> None:
        for worker, question, timer in self._waiting.pop(child, []):
            if timer is not None:
                timer.cancel()
            self._cluster.answer(worker, question, self._code(child))
