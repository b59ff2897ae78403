"""What ``multiprocessing`` is made of between the processes of a script, on either engine: semaphores, pipes,
addresses at which one is called, and children. All else is the standard library's."""

from __future__ import annotations

import errno
import os
from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from squall.sim.scripts.pipes import Pipes
from squall.sim.scripts.waits import Coordinator, Waits

#: no file that a process has open has such a number
_FIRST_END = 1_000_000


@dataclass(eq=False)
class _End:
    """One end of a pipe: what has come, who has it, how often it is on its way to somebody."""

    other: int
    inbox: deque[bytes] = field(default_factory=deque)
    holders: set[Any] = field(default_factory=set)
    on_the_way: int = 0

    @property
    def is_held(self) -> bool:
        return bool(self.on_the_way) or any(holder.alive for holder in self.holders)


class _Listener(NamedTuple):
    """Who listens, and ends of who calls."""

    worker: Any
    called: deque[int]


class Exchange:
    """Answers what sim/scripts/multiprocess.py asks; semaphores, ends of pipes and addresses are known by
    numbers. ``waits``: also those of who waits for processes, since ``multiprocessing.connection.wait`` waits
    for both."""

    def __init__(self, coordinator: Coordinator, waits: Waits) -> None:
        self._coordinator, self._waits = coordinator, waits
        self._semaphores: list[int] = []
        self._ends: dict[int, _End] = {}
        self._listeners: dict[str, _Listener] = {}
        self._listened = 0
        for word in ("acquire", "release", "value"):
            coordinator.answers[f"semaphore {word}"] = getattr(self, f"_{word}")
        for word in ("semaphore", "pipe", "send", "receive", "passed", "reached", "close",
                     "listen", "leave", "accept", "connect"):  # fmt: skip
            coordinator.answers[f"exchange {word}"] = getattr(self, f"_{word}")

    # -- semaphores -----------------------------------------------------------------------

    def _semaphore(self, worker: Any, question: Any, value: int) -> None:
        self._semaphores.append(value)
        self._coordinator.answer(worker, question, len(self._semaphores) - 1)

    def _acquire(self, worker: Any, question: Any, number: int, timeout_s: float | None) -> None:

        def take() -> tuple[bool] | None:
            if not self._semaphores[number]:
                return None
            self._semaphores[number] -= 1
            return (True,)

        self._waits.until(worker, question, take, timeout_s, lambda: False)

    def _release(self, worker: Any, question: Any, number: int, most: int) -> None:
        """Answered with whether it was not too often."""
        good = self._semaphores[number] < most
        self._semaphores[number] += good
        self._coordinator.answer(worker, question, good)
        self._waits.look()

    def _value(self, worker: Any, question: Any, number: int) -> None:
        self._coordinator.answer(worker, question, self._semaphores[number])

    # -- pipes ----------------------------------------------------------------------------

    def _new_pipe(self) -> tuple[int, int]:
        first = _FIRST_END + len(self._ends)
        self._ends |= {first: _End(first + 1), first + 1: _End(first)}
        return first, first + 1

    def _pipe(self, worker: Any, question: Any) -> None:
        ends = self._new_pipe()
        for number in ends:
            self._ends[number].holders.add(worker)
        self._coordinator.answer(worker, question, ends)

    def _send(self, worker: Any, question: Any, number: int, data: bytes) -> None:
        """Answered with whether anybody could receive it."""
        other = self._ends[self._ends[number].other]
        if other.is_held:
            other.inbox.append(data)
        self._coordinator.answer(worker, question, other.is_held)
        self._waits.look()

    def _receive(self, worker: Any, question: Any, number: int) -> None:
        """Answered with None where nobody is left who could send."""
        end = self._ends[number]

        def take() -> tuple[bytes | None] | None:
            if end.inbox:
                return (end.inbox.popleft(),)
            return None if self._ends[end.other].is_held else (None,)

        self._waits.until(worker, question, take)

    def is_ready(self, number: int) -> bool:
        """Whether nobody waits who would receive there."""
        end = self._ends[number]
        return bool(end.inbox) or not self._ends[end.other].is_held

    def _passed(self, worker: Any, question: Any, number: int) -> None:
        self._ends[number].on_the_way += 1
        self._coordinator.answer(worker, question, None)

    def _reached(self, worker: Any, question: Any, number: int) -> None:
        end = self._ends[number]
        end.on_the_way = max(0, end.on_the_way - 1)
        end.holders.add(worker)
        self._coordinator.answer(worker, question, None)

    def _close(self, worker: Any, question: Any, number: int) -> None:
        self._ends[number].holders.discard(worker)
        self._coordinator.answer(worker, question, None)
        self._waits.look()

    def forked(self, parent: Any, child: Any) -> None:
        """A child has what its parent has."""
        for end in self._ends.values():
            if parent in end.holders:
                end.holders.add(child)

    # -- addresses ------------------------------------------------------------------------

    def _listener(self, address: str) -> _Listener | None:
        """None once the process has ended."""
        found = self._listeners.get(address)
        return found if found is not None and found.worker.alive else None

    def _listen(self, worker: Any, question: Any, asked: str | None) -> None:
        """Answered with the address; None if somebody listens there."""
        self._listened += 1
        address = asked or f"listener-{self._listened}"
        if self._listener(address) is not None:
            self._coordinator.answer(worker, question, None)
            return
        self._listeners[address] = _Listener(worker, deque())
        self._coordinator.answer(worker, question, address)

    def _leave(self, worker: Any, question: Any, address: str) -> None:
        left = self._listeners.pop(address, None)
        for number in () if left is None else left.called:
            self._ends[number].holders.clear()
        self._coordinator.answer(worker, question, None)
        self._waits.look()

    def _accept(self, worker: Any, question: Any, address: str) -> None:
        called = self._listeners[address].called

        def take() -> tuple[int] | None:
            if not called:
                return None
            self._ends[called[0]].holders = {worker}
            return (called.popleft(),)

        self._waits.until(worker, question, take)

    def _connect(self, worker: Any, question: Any, address: str) -> None:
        """Answered with an end; None if nobody listens there."""
        listener = self._listener(address)
        if listener is None:
            self._coordinator.answer(worker, question, None)
            return
        mine, theirs = self._new_pipe()
        self._ends[mine].holders.add(worker)
        self._ends[theirs].holders.add(listener.worker)
        listener.called.append(theirs)
        self._coordinator.answer(worker, question, mine)
        self._waits.look()


class Children:
    """Answers about processes that processes have started. What starts and ends one is its engine's."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._waits = Waits(coordinator)
        self._exchange = Exchange(coordinator, self._waits)
        self.pipes = Pipes(coordinator, self._waits)
        for word in ("child wait", "child kill", "wait any"):
            coordinator.answers[word] = getattr(self, "_" + word.replace(" ", "_"))

    def process(self, pid: int) -> Any:
        """None if there is none."""
        raise NotImplementedError

    def code(self, child: Any) -> int:
        """The exit code of one that has ended."""
        raise NotImplementedError

    def signal(self, child: Any, number: int) -> None:
        """Send it a signal."""
        raise NotImplementedError

    def gone(self, child: Any) -> None:
        """A process has ended."""
        self._waits.look()

    def _child_wait(
        self, worker: Any, question: Any, pids: list[int], timeout_s: float | None
    ) -> None:
        """For one of some children at least, so many seconds at most: exit codes, by number."""
        children = {pid: self.process(pid) for pid in pids}

        def ended() -> tuple[dict[int, int]] | None:
            codes = {pid: self.code(each) for pid, each in children.items() if not each.alive}
            return (codes,) if codes else None

        self._waits.until(worker, question, ended, timeout_s, dict)

    def _wait_any(
        self, worker: Any, question: Any, keys: list[tuple[str, int]], timeout_s: float | None
    ) -> None:
        """For one of some processes, by the negative number, and ends of pipes: those that are ready."""

        def is_ready(kind: str, number: int) -> bool:
            if kind == "child":
                return not self.process(-number).alive
            return self._exchange.is_ready(number)

        def ready() -> tuple[list[tuple[str, int]]] | None:
            found = [key for key in keys if is_ready(*key)]
            return (found,) if found or not keys else None

        self._waits.until(worker, question, ready, timeout_s, list)

    def _child_kill(self, worker: Any, question: Any, pid: int, number: int) -> None:
        """Answered with what is to be raised, if anything."""
        child, problem = self.process(pid), None
        if child is None:
            problem = ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        elif child.alive and number:
            self.signal(child, number)
        self._coordinator.answer(worker, question, problem)
