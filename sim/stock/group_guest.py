"""Inside a process of a script on the engine ``torch``: the operations of its process groups.

``torch.distributed`` and DistributedDataParallel are PyTorch's own; where they call ProcessGroupGloo
they get ``Group`` of real/native/group.cpp, whose other half is :class:`Member`.

Who waits for whom is as in gloo: each for all where everybody's data makes the result, a sender for
its receiver to be there (``broadcast``, ``scatter``, ``gather`` and ``send``).
"""

from __future__ import annotations

import functools
import importlib
import pickle
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from squall.real.native.here import Here
from squall.sim.scripts.moved import assign, check_alike, put
from squall.sim.scripts.reductions import operator_name, reduced
from squall.sim.stock.call import Names
from squall.sim.stock.call_names import Registered, names
from squall.sim.stock.group_events import Event, events
from squall.sim.stock.packed import Packed, unpacked
from squall.sim.stock.results_guest import Taken, Told
from squall.sim.stock.store_guest import meet
from squall.sim.world.pieces import POINT_TO_POINT
from squall.sim.world.places import line_of

_ID = "squall group"
#: the argument of PyTorch's function that makes a group which has the ranks
_RANKS = "global_ranks_in_group"
#: seconds of virtual time for which a look at an operation lets others go on
_LOOK_S = 1e-6

Values = dict[int, list[Tensor]]


def install(here: Here) -> None:
    """Let ``gloo`` be the simulated network."""
    group: Any = importlib.import_module("squall_agent").Group
    group.__name__ = group.__qualname__ = "ProcessGroupGloo"
    group.set_factory(functools.partial(Member, here, Registered()))
    for name in ("torch.distributed", "torch.distributed.distributed_c10d"):
        vars(importlib.import_module(name))["ProcessGroupGloo"] = group


@dataclass
class _Operation:
    """What one member does for its part of a collective, or of a send or receive."""

    tag: tuple[Any, ...]
    #: what all members have to give alike, by name
    agreed: dict[str, str] = field(default_factory=dict)
    #: what the work gives as its result
    outputs: list[Tensor] = field(default_factory=list)
    #: by member: what it is sent
    pieces: dict[int, list[Tensor]] = field(default_factory=dict)
    #: what it gives itself
    own: list[Tensor] | None = None
    wants: list[int] = field(default_factory=list)
    #: those who wait until this one is there; and those whom this one waits for
    tells: list[int] = field(default_factory=list)
    readers: list[int] = field(default_factory=list)
    #: given what has come, by member
    finish: Callable[[Values], object] = lambda values: None
    #: elements for each member, and expected of each, where they differ by member
    parts: tuple[tuple[int, ...], tuple[int, ...]] | tuple[()] = ()
    #: the user's line, and the call that it is part of
    place: str = ""
    names: Names = field(default_factory=Names)


class Member:
    """This process's part of one process group."""

    def __init__(
        self,
        here: Here,
        registered: Registered,
        store: Any,
        rank: int,
        size: int,
        timeout_ms: float,
    ) -> None:
        self._here = here
        self._registered = registered
        self._rank = rank
        self._size = size
        self._others = [member for member in range(size) if member != rank]
        self._timeout_s = timeout_ms / 1000
        self._count = 0
        self._under_way: list[Taken] = []
        meet(rank, size)
        if rank == 0:
            store.set(_ID, str(here.ask("group new", size)))
        self._number = int(store.get(_ID))
        frame = sys._getframe()
        ranks = _ranks_given(frame) or [*range(size)]
        problem = here.ask("group join", self._number, rank, ranks, line_of(frame), self._timeout_s)
        if problem is not None:
            raise RuntimeError(problem)

    # -- for group.cpp --------------------------------------------------------------------

    def run(self, what: str, timeout_ms: float, *args: Any) -> Any:
        """Begin an operation and give its ``Work``."""
        operation: _Operation = getattr(self, f"_{what}")(*args)
        frame = sys._getframe()
        operation.place = line_of(frame)
        if operation.tag[0] != POINT_TO_POINT:  # whose calls are not compared
            operation.names = names(frame, _subject(args), self._registered)
        taken = Taken(what, args, self._size)
        under_way = self._under_way
        under_way.append(taken)
        timeout_s = self._timeout_s if timeout_ms < 0 else timeout_ms / 1000
        work, *inner = self._works(events(what, args), operation.outputs, what in ("send", "recv"))

        asked, packed = self._asked(operation, timeout_s)

        def then(answer: bytes) -> None:
            problem, got = pickle.loads(answer)
            is_written = taken.is_written()
            under_way.remove(taken)
            if problem is None:
                if what == "recv":
                    work.set_source(next(iter(got)))
                try:
                    values = {src: unpacked(*sent) for src, sent in got.items()}
                    if operation.own is not None:
                        values[self._rank] = packed[id(operation.own)].tensors()
                    with torch.no_grad():
                        operation.finish(dict(sorted(values.items())))
                except Exception as error:  # whoever waits for the work is told
                    problem = str(error)
                taken.filled(under_way)
            for each in packed.values():
                each.close()
            self._tell_of(operation, taken, is_written, problem is None and not is_written)
            for each in (*inner, work):
                if problem is None:
                    each.done()
                else:
                    each.fail(problem)

        self._here.ask_then(asked, then)
        return work

    def monitored_barrier(self, timeout_ms: float, wait_all_ranks: bool) -> None:
        """As ProcessGroupGloo has it: rank 0 hears of each other one, and lets them go on.

        Raises RuntimeError on rank 0 that names who did not come (the first one, or all), or that no time is left.
        """
        timeout_s = self._timeout_s if timeout_ms < 0 else timeout_ms / 1000
        self._count += 1
        tag = ("monitored_barrier", self._count)
        token = [torch.zeros(1)]
        if self._rank != 0:
            here = _Operation(tag, pieces={0: token}, wants=[0])
            problem = self._done(here, timeout_s)
            if problem is not None:
                raise RuntimeError(
                    f"Rank {self._rank} successfully reached monitoredBarrier, but received errors "
                    "while waiting for send/recv from rank 0. Please check rank 0 logs for faulty "
                    f"rank.\n Original exception: \n{problem}"
                )
            return
        limit = f"monitoredBarrier {{}} {round(timeout_s * 1000)} ms"
        end_s, missing, why = self._here.now() + timeout_s, [], ""
        for member in self._others:
            left_s = max(0.0, end_s - self._here.now())
            if left_s or wait_all_ranks:
                problem = self._done(_Operation(tag, wants=[member]), left_s)
            else:
                came = ", ".join(map(str, self._others[: self._others.index(member)]))
                problem = f"Rank 0 timed out in {limit.format('after')}.\n" + (
                    f"Successfully processed ranks: {came}"
                    if came
                    else "No ranks successfully processed in monitoredBarrier."
                )
            if problem is not None:
                missing.append(member)
                if not wait_all_ranks:
                    why = f"\n Original exception: \n{problem}"
                    break
        if missing:
            who = ", ".join(map(str, missing))
            raise RuntimeError(
                f"[Rank 0]: Rank{'s' if wait_all_ranks else ''} {who} failed to pass "
                f"{limit.format('in')}{why}"
            )
        self._done(_Operation(tag, pieces=dict.fromkeys(self._others, token)), timeout_s)

    def look(self) -> None:
        """Whoever polls lets others go on."""
        self._here.sleep(_LOOK_S)

    def limit(self, seconds: float, work: Any) -> Callable[[], None]:
        """Let ``work`` expire after so much virtual time, unless what is returned is called."""
        question = self._here.ask_then(("sleep", seconds), lambda _: work.expire())
        return lambda: self._here.link.wake(question)

    def set_timeout(self, timeout_ms: float) -> None:
        self._timeout_s = timeout_ms / 1000

    def sequence_number(self) -> int:
        return self._count

    def leave(self) -> None:
        self._here.ask("group leave", self._number, self._rank)

    # -- inside ---------------------------------------------------------------------------

    def _asked(
        self, operation: _Operation, timeout_s: float
    ) -> tuple[tuple[Any, ...], dict[int, Packed]]:
        """What is asked, and what was packed for it, by id, which is to be closed when it is answered."""
        sent, own = operation.pieces, operation.own
        values = {id(each): each for each in (*sent.values(), *([] if own is None else [own]))}
        packed = {key: Packed(each) for key, each in values.items()}
        data = {key: pickle.dumps(packed[key].parts) for key in set(map(id, sent.values()))}
        question = (
            "group do",
            self._number,
            self._rank,
            operation.tag,
            operation.agreed,
            operation.parts,
            operation.place,
            operation.names,
            {dst: (data[id(each)], packed[id(each)].fd) for dst, each in sent.items()},
            operation.wants,
            operation.tells,
            operation.readers,
            timeout_s,
        )
        return question, packed

    def _works(
        self, recorded: list[Event], outputs: list[Tensor], until_waited: bool = False
    ) -> list[Any]:
        """One for each event that a profiler records."""
        make = importlib.import_module("squall_agent").GroupWork
        return [make(self, outputs, until_waited, name, inputs) for name, inputs in recorded]

    def _tell_of(
        self, operation: _Operation, taken: Taken, is_written: bool, is_good: bool
    ) -> None:
        """What was given and what came of it; of a message only that its tensors were written to."""
        if operation.tag[0] != "send":
            result = taken.results()
            told = Told(
                operation.agreed, taken.precision, taken.given, result, is_good, taken.least
            )
        elif is_written:
            told = None
        else:
            return
        where = (self._number, self._rank, operation.tag, operation.place)
        self._here.tell("group over", *where, is_written, told, self._size)

    def _done(self, operation: _Operation, timeout_s: float) -> str | None:
        """Wait for the end of an operation of tokens: what went wrong."""
        token = [torch.zeros(1)]
        sent, got = len(operation.pieces), len(operation.wants)
        works = self._works([("gloo:send", token)] * sent + [("gloo:recv", token)] * got, [])
        question, _ = self._asked(operation, timeout_s)  # of small tensors
        problem: str | None = self._here.ask(*question)[0]
        for work in works:
            work.done()
        return problem

    def _tag(self, what: str) -> tuple[Any, ...]:
        """Names a collective: members that agree on the order of their calls agree on it."""
        self._count += 1
        return (what, self._count)

    def _exchange(
        self,
        what: str,
        outputs: list[Tensor],
        own: list[Tensor],
        finish: Callable[[Values], object],
        *,
        parts: dict[int, list[Tensor]] | None = None,
        agreed: dict[str, str] | None = None,
    ) -> _Operation:
        """Everybody's ``own``, or what is meant for this one of their ``parts``, goes to
        ``finish``, by member."""
        pieces = (
            dict.fromkeys(self._others, own)
            if parts is None
            else {member: parts[member] for member in self._others}
        )
        mine = own if parts is None else parts[self._rank]
        return _Operation(
            self._tag(what), agreed or {}, outputs, pieces, mine, self._others, finish=finish
        )

    # -- collectives ----------------------------------------------------------------------

    def _all_reduce(
        self, tensors: list[Tensor], op: Any, into: list[Tensor] | None = None
    ) -> _Operation:
        # Several are reduced as one, one behind the other.
        begin = [0, *accumulate(map(Tensor.numel, tensors))]

        def finish(values: Values) -> None:
            for n, tensor in enumerate(tensors if into is None else into):
                each = [sent[n] for sent in values.values()]
                to_one = into is not None
                at, of = begin[n], begin[-1]
                assign(tensor, reduced(each, op, into=tensor, at=at, of=of, to_one=to_one))

        about = _about(tensors, op=op)
        return self._exchange("all_reduce", tensors, tensors, finish, agreed=about)

    def _reduce(self, tensors: list[Tensor], op: Any, root: int) -> _Operation:
        # Who is not the root finds out, too, what the operator cannot do.
        into = tensors if self._rank == root else _copies(tensors)
        operation = self._all_reduce(tensors, op, into)
        operation.tag = ("reduce", *operation.tag[1:])
        operation.agreed |= _about(tensors, root=root)
        return operation

    def _broadcast(self, tensors: list[Tensor], root: int) -> _Operation:
        tag, about = self._tag("broadcast"), _about(tensors, root=root)
        if self._rank == root:
            pieces = dict.fromkeys(self._others, tensors)
            return _Operation(tag, about, tensors, pieces, readers=self._others)
        finish = lambda values: put(tensors, values[root])  # noqa: E731
        return _Operation(tag, about, tensors, wants=[root], tells=[root], finish=finish)

    def _all_gather(self, outputs: list[list[Tensor]], inputs: list[Tensor]) -> _Operation:
        (into,) = outputs
        check_alike(into, inputs[0])

        def finish(values: Values) -> None:
            put(into, [each[0] for each in values.values()])

        return self._exchange("all_gather", into, inputs, finish, agreed=_about(inputs))

    def _all_gather_coalesced(
        self, outputs: list[list[Tensor]], inputs: list[Tensor]
    ) -> _Operation:
        def finish(values: Values) -> None:
            for into, sent in zip(outputs, values.values(), strict=True):
                put(into, sent)

        return self._exchange(
            "all_gather", [each for into in outputs for each in into], inputs, finish
        )

    def _all_gather_into_tensor(self, outputs: list[Tensor], inputs: list[Tensor]) -> _Operation:
        if len(outputs) == 1:
            check_alike(list(outputs[0].chunk(self._size)), inputs[0])

        def finish(values: Values) -> None:
            for at, output in enumerate(outputs):
                parts = [each[at].reshape(-1) for each in values.values()]
                output.detach().copy_(torch.cat(parts).reshape(output.shape))

        about = _about(inputs)
        return self._exchange("all_gather_into_tensor", outputs, inputs, finish, agreed=about)

    def _gather(self, outputs: list[list[Tensor]], inputs: list[Tensor], root: int) -> _Operation:
        tag, about = self._tag("gather"), _about(inputs, root=root)
        if self._rank != root:
            return _Operation(tag, about, pieces={root: inputs}, readers=[root])
        (into,), others = outputs, self._others
        finish = lambda values: put(into, [each[0] for each in values.values()])  # noqa: E731
        return _Operation(tag, about, into, own=inputs, wants=others, tells=others, finish=finish)

    def _scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], root: int) -> _Operation:
        tag, about = self._tag("scatter"), _about(outputs, root=root)
        if self._rank != root:
            finish = lambda values: put(outputs, values[root])  # noqa: E731
            return _Operation(tag, about, outputs, wants=[root], tells=[root], finish=finish)
        (parts,) = inputs
        pieces = {member: [parts[member]] for member in self._others}
        finish = lambda values: put(outputs, values[root])  # noqa: E731
        own, others = [parts[root]], self._others
        return _Operation(tag, about, outputs, pieces, own, readers=others, finish=finish)

    def _reduce_scatter(
        self, outputs: list[Tensor], inputs: list[list[Tensor]], op: Any
    ) -> _Operation:
        parts = {member: [part] for member, part in enumerate(inputs[0])}
        return self._scattered(outputs, parts, op, as_one=False)

    def _reduce_scatter_tensor(
        self, outputs: list[Tensor], inputs: list[Tensor], op: Any
    ) -> _Operation:
        split = [
            each.reshape(self._size, *output.shape).unbind(0)
            for output, each in zip(outputs, inputs, strict=True)
        ]
        parts = {member: [each[member] for each in split] for member in range(self._size)}
        return self._scattered(outputs, parts, op, as_one=True)

    def _scattered(
        self, outputs: list[Tensor], parts: dict[int, list[Tensor]], op: Any, *, as_one: bool
    ) -> _Operation:
        """``as_one``: all parts are reduced for all as one tensor, of which each takes its own."""

        def finish(values: Values) -> None:
            for n, output in enumerate(outputs):
                each, size = [sent[n] for sent in values.values()], output.numel()
                at, of = (self._rank * size, self._size * size) if as_one else (0, size)
                assign(output, reduced(each, op, into=output, at=at, of=of))

        about = _about([each for part in parts.values() for each in part], op=op)
        return self._exchange("reduce_scatter", outputs, [], finish, parts=parts, agreed=about)

    def _all_to_all(self, outputs: list[Tensor], inputs: list[Tensor]) -> _Operation:
        def finish(values: Values) -> None:
            put(outputs, [each[0] for each in values.values()])

        parts = {member: [each] for member, each in enumerate(inputs)}
        operation = self._exchange("all_to_all", outputs, [], finish, parts=parts)
        operation.parts = tuple(map(Tensor.numel, inputs)), tuple(map(Tensor.numel, outputs))
        return operation

    def _all_to_all_single(
        self, output: Tensor, input: Tensor, output_sizes: list[int], input_sizes: list[int]
    ) -> _Operation:
        outs, ins = (
            list(whole.split(sizes or whole.size(0) // self._size))
            for whole, sizes in ((output, output_sizes), (input, input_sizes))
        )
        operation = self._all_to_all(outs, ins)
        operation.outputs = [output]
        return operation

    def _barrier(self) -> _Operation:
        return self._exchange("barrier", [], [], lambda values: None)

    # -- point to point -------------------------------------------------------------------

    def _send(self, tensors: list[Tensor], dst: int, tag: int) -> _Operation:
        return _Operation(("send", tag), pieces={dst: tensors}, readers=[dst])

    def _recv(self, tensors: list[Tensor], src: int, tag: int) -> _Operation:
        """``src``: -1 for anybody, who is told when it turns out who it is."""

        def finish(values: Values) -> None:
            (sent,) = values.values()
            put(tensors, sent)

        tells = [] if src < 0 else [src]
        return _Operation(("send", tag), outputs=tensors, wants=[src], tells=tells, finish=finish)


def _subject(args: tuple[Any, ...]) -> Any:
    """The first of the tensors that an operation is given."""
    given: Any = next((each for each in args[1::-1] if isinstance(each, list | Tensor)), None)
    while isinstance(given, list):
        given = given[0] if given else None
    return given


def _about(tensors: list[Tensor], *, root: int | None = None, op: Any = None) -> dict[str, str]:
    """What all members of a collective have to give alike."""
    about = {
        "type": ", ".join(dict.fromkeys(str(each.dtype) for each in tensors)),
        "elements": str(sum(each.numel() for each in tensors)),
        "shape": ", ".join(dict.fromkeys(str([*each.shape]) for each in tensors)),
    }
    if root is not None:
        about["root"] = str(root)
    if op is not None:
        about["op"] = operator_name(op)
    return about


def _copies(tensors: list[Tensor]) -> list[Tensor]:
    return [tensor.detach().clone() for tensor in tensors]


def _ranks_given(frame: types.FrameType | None) -> list[int]:
    """Of which ranks a script makes the group that is made in ``frame``; empty for the first one, of all."""
    while frame is not None:
        if _RANKS in frame.f_locals:
            return [*frame.f_locals[_RANKS]]
        frame = frame.f_back
    return []
