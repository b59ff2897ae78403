"""Processes that go on before their turn, so that several compute at the same time.

One process at a time is told something, and what it says is heard before anything else happens. But where it is
certain what a process will be told next, and when, it is told at once: all that it has asked will be answered, and
the first answer is known. It goes on in memory of its own while others do, and what it says is heard when its turn
comes, as if it had been told then. Before it does what others could see it waits for its turn
(sim/stock/turn_guest.py).

A run is the same with and without, to the last event: only what waits for its turn in the real world differs.
"""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass

from squall.sim.stock import message as wire
from squall.sim.stock.message import Batch
from squall.sim.stock.worker import NativeWorker

#: when an answer will be given: seconds of virtual time, whether that is still to be queued for that instant,
#: and its place among those
When = tuple[float, bool, int]


@dataclass(eq=False)
class Foreseen:
    """An answer that will be given."""

    question: int
    when: When
    data: bytes
    #: what the process reads then
    keep: object
    #: what the process has said, if that had to be read before its turn; None in it: it has died
    said: tuple[Batch | None] | None = None

    def command(self, kind: bytes = b"A") -> bytes:
        return wire.command(kind, self.when[0], wire.answer(self.question, self.data))


class Ahead:
    """What is foreseen for each process, and who has been told."""

    def __init__(self) -> None:
        #: whether anybody is told before its turn
        self.is_on = False
        self._foreseen: dict[NativeWorker, dict[int, Foreseen]] = {}
        self._given: dict[NativeWorker, Foreseen] = {}
        #: more at a time would only take the processors from who is next
        self._most = len(os.sched_getaffinity(0)) + 1

    def foresee(
        self, worker: NativeWorker, question: int, when: When, value: object, keep: object
    ) -> None:
        """Note what a question will be answered, or that the answer that was noted is queued now."""
        known = self._foreseen.setdefault(worker, {})
        if question in known:
            known[question].when = when
        else:
            known[question] = Foreseen(question, when, pickle.dumps(value), keep)

    def take(self, worker: NativeWorker, question: int) -> Foreseen:
        """What was foreseen, whose time has come."""
        return self._foreseen[worker][question]

    def is_given(self, worker: NativeWorker) -> bool:
        """Whether it has been told something before its turn."""
        return worker in self._given

    def forget(self, worker: NativeWorker, question: int) -> None:
        """It is told now, or something else."""
        self._foreseen.get(worker, {}).pop(question, None)

    def ended(self, worker: NativeWorker) -> None:
        """What it has said is nobody's any more."""
        self._foreseen.pop(worker, None)

    def look(self) -> None:
        """Tell who can be told, the next ones first."""
        room = self._most - sum(worker.alive for worker in self._given)
        if not self.is_on or room <= 0:
            return
        ready = [
            (min(known.values(), key=lambda each: each.when), worker)
            for worker, known in self._foreseen.items()
            if known and worker.open == known.keys() and self._is_free(worker)
        ]
        for first, worker in sorted(ready, key=lambda each: each[0].when)[:room]:
            self._given[worker] = first
            worker.give(first.command(b"a"))

    def _is_free(self, worker: NativeWorker) -> bool:
        return worker not in self._given and worker.alive and not worker.attached

    def exchange(self, worker: NativeWorker, command: bytes | None) -> Batch | None:
        """As that of the worker, which may have been given the command already."""
        given = self._given.get(worker)
        if given is None:
            return worker.exchange(command)
        if command == given.command():
            del self._given[worker]
            return worker.hear() if given.said is None else given.said[0]
        assert command is not None and wire.is_call(command), "it was told something else before"
        if given.said is None:
            given.said = (worker.hear(),)
        return None if given.said[0] is None else worker.exchange(command)
