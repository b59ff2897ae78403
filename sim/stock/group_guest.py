"""Inside a process of a script on the engine ``torch``: the operations of its process groups.

``torch.distributed`` and DistributedDataParallel are PyTorch's own; where they call ProcessGroupGloo
they get ``Group`` of real/native/group.cpp, whose other half is :class:`Member`.
"""

from __future__ import annotations

import functools
import importlib
import math
import pickle
import sys
import types
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from squall.real.native.here import Here
from squall.sim.scripts.backends import batch_of, numbered
from squall.sim.scripts.call import Names
from squall.sim.scripts.call_names import Registered, names
from squall.sim.scripts.collectives import Operation, Operations, hear_of_all
from squall.sim.stock.group_events import Event, events
from squall.sim.stock.memory_file import LentFiles
from squall.sim.stock.packed import Packed, unpacked
from squall.sim.stock.results_guest import MemberReport, Taken
from squall.sim.stock.store_guest import meet
from squall.sim.world.pieces import POINT_TO_POINT
from squall.sim.world.places import frames_of, line_of, user_place

_ID = "squall group"
#: the argument of PyTorch's function that makes a group which has the ranks
_RANKS = "global_ranks_in_group"
#: seconds of virtual time for which a look at an operation lets others go on
_LOOK_S = 1e-6


def install(here: Here) -> None:
    """Let ``gloo`` be the simulated network."""
    group: Any = importlib.import_module("squall_agent").Group
    group.__name__ = group.__qualname__ = "ProcessGroupGloo"
    counts = Counter[str]()
    group.set_factory(functools.partial(Member, here, Registered(lambda: counts), LentFiles(), {}))
    for name in ("torch.distributed", "torch.distributed.distributed_c10d"):
        module = vars(importlib.import_module(name))
        module["ProcessGroupGloo"] = group
        module["batch_isend_irecv"] = numbered(module["batch_isend_irecv"])


@dataclass
class _Call:
    """Of an operation: ``number`` names a collective, as members that agree on the order of their calls agree on it; of
    a message it is the tag. ``place``: the user's line; ``names``: the call that it is part of."""

    operation: Operation
    agreed: dict[str, str]
    place: str
    number: int = 0
    names: Names = field(default_factory=Names)
    batch: int = 0

    @property
    def tag(self) -> tuple[str, int]:
        return self.operation.kind, self.number


class Member:
    """This process's part of one process group."""

    def __init__(
        self,
        here: Here,
        registered: Registered,
        files: LentFiles,
        known: dict[int, Tensor],
        store: Any,
        rank: int,
        size: int,
        timeout_ms: float,
    ) -> None:
        self._here = here
        self._registered = registered
        self._files = files
        #: files of others that are mapped, by their numbers
        self._known = known
        self._rank = rank
        self._size = size
        self._operations = Operations(rank, size)
        self._timeout_s = timeout_ms / 1000
        self._count = 0
        self._under_way: list[Taken] = []
        meet(rank, size)
        if rank == 0:
            store.set(_ID, str(here.ask("group new", size)))
        self._number = int(store.get(_ID))
        # No frame is kept in a variable of its own: whatever its callers have would live until garbage is collected.
        ranks, made = _ranks_given(sys._getframe()), str(user_place(sys._getframe()))
        where = (ranks, line_of(sys._getframe()), made)
        problem = here.ask("group join", self._number, rank, *where, self._timeout_s)
        if problem is not None:
            raise problem

    # -- for group.cpp --------------------------------------------------------------------

    def run(self, what: str, timeout_ms: float, *args: Any) -> Any:
        """Begin an operation and give its ``Work``."""
        operation: Operation = getattr(self._operations, what)(*args)
        call = _Call(operation, operation.agreed, line_of(sys._getframe()))
        if operation.kind == POINT_TO_POINT:  # whose calls are not compared
            call.number, call.batch = args[2], batch_of(sys._getframe())
        else:
            self._count += 1
            call.number = self._count
            call.names = names(sys._getframe(), args, self._registered)
        taken = Taken(what, args, self._size)
        under_way = self._under_way
        under_way.append(taken)
        timeout_s = self._timeout_s if timeout_ms < 0 else timeout_ms / 1000
        message = _Message(self, timeout_s) if operation.kind == POINT_TO_POINT else None
        work, *inner = self._works(events(what, args), operation.outputs, message)

        asked, packed = self._asked(call, math.inf if message is not None else timeout_s)

        def then(answer: bytes) -> None:
            problem, got = pickle.loads(answer)
            is_written = taken.is_written()
            under_way.remove(taken)
            if problem is None:
                if what == "recv":
                    work.set_source(next(iter(got)))
                try:
                    values = {
                        src: unpacked(pickle.loads(data), path, self._known)
                        for src, (data, path) in got.items()
                    }
                    if operation.own is not None:
                        values[self._rank] = packed[id(operation.own)].tensors()
                    with torch.no_grad():
                        operation.finish(dict(sorted(values.items())))
                except Exception as error:  # whoever waits for the work is told
                    problem = str(error)
                taken.filled(under_way)
            for each in packed.values():
                each.close()
            self._tell_of(call, taken, is_written, problem is None and not is_written)
            for each in (*inner, work):
                if problem is None:
                    each.done()
                else:
                    each.fail(problem)

        question = self._here.ask_then(asked, then)
        if message is not None:
            message.question = question
        return work

    def monitored_barrier(self, timeout_ms: float, wait_all_ranks: bool) -> None:
        self._count += 1
        timeout_s = self._timeout_s if timeout_ms < 0 else timeout_ms / 1000
        done = functools.partial(self._done, self._count)
        hear_of_all(self._rank, self._size, timeout_s, wait_all_ranks, self._here.now, done)

    def look(self) -> None:
        """Whoever polls lets others go on."""
        self._here.sleep(_LOOK_S)

    def limit(self, seconds: float, work: Any) -> Callable[[], None]:
        """Let ``work`` expire after so much virtual time, unless what is returned is called."""
        question = self._here.ask_then(("sleep", seconds), lambda _: work.expire())
        return lambda: self._here.link.wake(question)

    def waited(self, question: int, timeout_s: float) -> None:
        """From now on a message has so much time."""
        self._here.tell("group wait", self._number, question, timeout_s)

    def set_timeout(self, timeout_ms: float) -> None:
        self._timeout_s = timeout_ms / 1000

    def sequence_number(self) -> int:
        return self._count

    def leave(self) -> None:
        self._here.ask("group leave", self._number, self._rank)

    # -- inside ---------------------------------------------------------------------------

    def _asked(self, call: _Call, timeout_s: float) -> tuple[tuple[Any, ...], dict[int, Packed]]:
        """What is asked, and what was packed for it, by id, which is to be closed when it is answered."""
        operation = call.operation
        sent, own = operation.pieces, operation.own
        values = {id(each): each for each in (*sent.values(), *([] if own is None else [own]))}
        packed = {key: Packed(each, self._files) for key, each in values.items()}
        data = {
            key: (pickle.dumps(packed[key].parts), packed[key].lent())
            for key in set(map(id, sent.values()))
        }
        question = (
            "group do",
            self._number,
            self._rank,
            call.tag,
            call.agreed,
            operation.parts,
            call.place,
            call.names,
            call.batch,
            {dst: data[id(each)] for dst, each in sent.items()},
            operation.wants,
            operation.tells,
            operation.readers,
            timeout_s,
        )
        return question, packed

    def _works(
        self, recorded: list[Event], outputs: list[Tensor], message: _Message | None = None
    ) -> list[Any]:
        """One for each event that a profiler records."""
        make = importlib.import_module("squall_agent").GroupWork
        helper, until_waited = message or self, message is not None
        return [make(helper, outputs, until_waited, name, inputs) for name, inputs in recorded]

    def _tell_of(self, call: _Call, taken: Taken, is_written: bool, is_good: bool) -> None:
        """What was given and what came of it; of a message only that its tensors were written to."""
        if call.operation.kind != POINT_TO_POINT:
            result = taken.results()
            told = MemberReport(
                call.agreed, taken.precision, taken.given, result, is_good, taken.least,
                taken.in_one_piece,
            )  # fmt: skip
        elif is_written:
            told = None
        else:
            return
        where = (self._number, self._rank, call.tag, call.place)
        self._here.tell("group over", *where, is_written, told, self._size)

    def _done(
        self, number: int, tells: list[int], wants: list[int], timeout_s: float
    ) -> str | None:
        """Wait for the end of a part of a monitored barrier, of tokens: what went wrong."""
        token = [torch.zeros(1)]
        recorded = [("gloo:send", token)] * len(tells) + [("gloo:recv", token)] * len(wants)
        works = self._works(recorded, [])
        pieces = dict.fromkeys(tells, token)
        operation = Operation("monitored_barrier", pieces=pieces, wants=wants)
        call = _Call(operation, {}, "", number)
        question, _ = self._asked(call, timeout_s)  # of small tensors
        problem: str | None = self._here.ask(*question)[0]
        for work in works:
            work.done()
        return problem


class _Message:
    """An operation of point to point of ``member``, which has ``timeout_s`` from when somebody waits for it."""

    question: int

    def __init__(self, member: Member, timeout_s: float) -> None:
        self._member = member
        self._timeout_s = timeout_s
        self.look = member.look

    def waited(self, timeout_ms: float) -> None:
        """``timeout_ms``: what whoever waits says, -1 for nothing."""
        timeout_s = self._timeout_s if timeout_ms < 0 else timeout_ms / 1000
        self._member.waited(self.question, timeout_s)


def _ranks_given(frame: types.FrameType | None) -> list[int]:
    """Of which ranks a script makes the group that is made in ``frame``; empty for the first one, of all."""
    given = (
        each.f_locals[_RANKS] for each in frames_of(frame) if _RANKS in each.f_code.co_varnames
    )
    return [*next(given, [])]
