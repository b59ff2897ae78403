"""Cargo: data of every shape that goes along with a call, and what must come of it.

A cargo goes on beside a step, as a story does, but is drawn: a message is put together from parts
(tensors of every layout, tensors that share memory, references, containers of every kind), is
given to a function of another worker in one of the ways in which functions are called, is described
there, perhaps written to, kept and given back. Both sides then write to what they have, and look
again: nothing that one of them does may be seen by the other. With ``passes`` the function
computes, in an autograd context of its own, and the gradients are compared with those of plain
``torch.autograd``.

What a cargo must come to follows from its parts alone: they are put together a second time where
nothing travels (model/program/cargo_values.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import ConfigDict, Field

from squall.model.program.choices import Choices
from squall.model.program.validated import Checked, plain

_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

#: a piece of a message, or a container of the pieces before it
PartKind = Literal[
    "tensor",  # of a layout and a dtype
    "same",  # a tensor that is in the message before, once more
    "view",  # another tensor that shares the memory of one before
    "detached",  # the memory of a tensor before that may require grad, without its history
    "plain",  # a number, a text, bytes, None, a type, a function
    "reference",  # an RRef to a number on ``worker``
    "list",  # this and what follows: containers of the last ``take`` parts
    "tuple",  # which has no identity of its own
    "dict",  # by names
    "ordered",  # an OrderedDict
    "named",  # a named tuple
    "data",  # a dataclass
    "reduced",  # a class of its own with __reduce__
    "stateful",  # one with __getstate__ and __setstate__
    "slots",  # one with __slots__
    "made",  # one that is made anew with arguments by name
    "ring",  # a list with one in it that has only itself in it
    "deep",  # lists within lists
]
#: how the elements of a tensor lie in memory
Layout = Literal[
    "whole",  # one after the other, and nothing else
    "narrowed",  # some of the elements of its storage, with an offset
    "strided",  # every second one
    "transposed",  # columns first
    "scalar",  # of no dimensions
    "element",  # of no dimensions, with an offset
    "expanded",  # each of them several times
    "overlapping",  # rows begin within the one before
    "empty",  # none, of a storage of no bytes
    "nothing",  # of a storage that is not empty: no element
    "gaps",  # a few elements of a large storage
    "conjugate",  # complex, with the bit that says so
    "negative",  # imaginary parts of such, with the bit that says so
    "negated",  # all numbers of such, with that bit
    "real",  # real parts of complex numbers
    "coo",  # sparse, with the same place twice
    "coalesced",  # sparse, each place once
    "parameter",  # torch.nn.Parameter, of some elements of a storage
]
CargoDtype = Literal[
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "int64",
    "int32",
    "int8",
    "uint8",
    "bool",
    "complex64",
    "complex128",
]
#: how a function is given the message
CargoCall = Literal[
    "sync",  # rpc_sync
    "async",  # rpc_async
    "remote",  # fetched at once from what rpc.remote returns
    "async_execution",  # the function returns a future that completes later
    "proxy_sync",  # rref.rpc_sync().method(...)
    "proxy_async",  # rref.rpc_async().method(...)
    "proxy_remote",  # rref.remote().method(...), fetched at once
    "relay",  # by a function on ``via``, so that all travels twice
]
#: why a call fails that is made with the same message before
CargoFailure = Literal[
    "argument",  # the message cannot be pickled
    "reading",  # it cannot be read where it arrives
    "result",  # the result cannot be pickled
    "reply",  # it cannot be read where it comes back
]

CONTAINERS = frozenset(
    (
        "list",
        "tuple",
        "dict",
        "ordered",
        "named",
        "data",
        "reduced",
        "stateful",
        "slots",
        "made",
        "ring",
        "deep",
    )
)
_KINDS: tuple[PartKind, ...] = (
    *("tensor",) * 8,
    *("view",) * 3,
    *("same",) * 2,
    "detached",
    *(kind for kind in get_args(PartKind) if kind not in ("tensor", "same", "view", "detached")),
)
_LAYOUTS: tuple[Layout, ...] = get_args(Layout)
_DTYPES: tuple[CargoDtype, ...] = (*("float64",) * 4, *get_args(CargoDtype))
_CALLS: tuple[CargoCall, ...] = get_args(CargoCall)
_FAILURES: tuple[CargoFailure, ...] = get_args(CargoFailure)
_MOST_PARTS = 6
_WAITS_S = (0.0, 0.0, 0.01, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CargoPart(Checked):
    """A piece of a message, or a container of the pieces before it.

    ``seed``: of its numbers. ``grad``: it requires grad. ``back``: of ``same`` and ``view``, which
    of the tensors before it, 1 the last. ``take``: how many parts a container has at most.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    kind: PartKind = "tensor"
    layout: Layout = "whole"
    dtype: CargoDtype = "float64"
    seed: Annotated[int, Field(ge=0, le=1000)] = 0
    grad: bool = False
    back: Annotated[int, Field(ge=1, le=100)] = 1
    take: Annotated[int, Field(ge=0, le=100)] = 1
    worker: int = 0

    @classmethod
    def drawn(cls, choices: Choices, workers: list[int]) -> CargoPart:
        return cls(
            kind=choices.pick("kind", _KINDS),
            layout=choices.pick("layout", _LAYOUTS),
            dtype=choices.pick("dtype", _DTYPES),
            seed=choices.integer("seed", 0, 20),
            grad=choices.chance("grad", 0.4),
            back=choices.integer("back", 1, 3),
            take=choices.integer("take", 0, 3),
            worker=choices.pick("worker", workers),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cargo(Checked):
    """A message between the trainer's worker and ``worker``, before operation ``before`` of its
    step.

    ``writes``: the function there writes to the tensors before it gives them back. ``passes``:
    backward passes through what it computes of those that require grad; 0: no context. ``wait_s``:
    seconds until both sides look again. ``fails``: a call before it, with the same message, fails.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT
    #: the field of a step that has such, how many at most, and how many programs have some
    field: ClassVar[str] = "cargoes"
    most: ClassVar[int] = 2
    often: ClassVar[float] = 0.25

    worker: int
    before: int = 0
    parts: Annotated[tuple[CargoPart, ...], Field(max_length=100)] = ()
    call: CargoCall = "sync"
    via: tuple[int, ...] = ()
    writes: bool = False
    passes: Annotated[int, Field(ge=0, le=10)] = 0
    wait_s: Annotated[float, Field(ge=0, le=1000)] = 0.0
    fails: CargoFailure | None = None

    @property
    def handlers(self) -> int:
        """It makes one call at a time, whose function may wait for references or for a relay."""
        return 2

    @property
    def longest_s(self) -> float:
        return self.wait_s

    @property
    def size(self) -> int:
        return 1 + len(self.parts)

    def wrong(self) -> str | None:
        wrong = self.call == "relay" and len(self.via) != 1
        return f"via: there is one worker on the way, not {len(self.via)}" if wrong else None

    def plain(self) -> dict[str, Any]:
        """The fields as plain values: what a script can have."""
        return {**plain(self), "parts": tuple(map(plain, self.parts))}

    @classmethod
    def drawn(cls, choices: Choices, workers: list[int], most_before: int) -> Cargo:
        """One that is drawn; the first of ``workers`` is the simplest one to carry it to."""
        call = choices.pick("call", _CALLS)
        fails = choices.chance("fails", 0.15)
        parts = [
            choices.group("part", partial(CargoPart.drawn, choices, workers))
            for _ in range(choices.integer("parts", 1, _MOST_PARTS))
        ]
        return cls(
            worker=choices.pick("worker", workers),
            before=choices.integer("before", 0, most_before),
            parts=tuple(parts),
            call=call,
            via=(choices.pick("via", workers),) if call == "relay" else (),
            writes=choices.chance("writes", 0.4),
            passes=choices.choice("passes", (0, 0, 1, 1, 2)),
            wait_s=choices.choice("wait", _WAITS_S),
            fails=choices.pick("failure", _FAILURES) if fails else None,
        )

    def for_compiled(self) -> Cargo:
        """Without calls that are to fail, which leave something there, without passes through proxies
        that lose their context, without references that are handed on within their owner, maybe before
        they are created, and without a history and its memory beside each other, which share it there
        (views-arrive-unrelated)."""
        cargo = self
        if cargo.via == (cargo.worker,):
            cargo = replace(cargo, call="sync", via=())
        lost = cargo.call == "proxy_async"
        parts = (
            replace(part, kind="tensor") if part.kind == "detached" else part
            for part in cargo.parts
        )
        return replace(cargo, parts=tuple(parts), fails=None, passes=0 if lost else cargo.passes)
