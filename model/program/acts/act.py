"""Acts: small uses of the API that are put together freely, each with a meaning of its own.

An act waits, fails, calls a worker to do other acts there, makes a reference to what comes of
them, opens an autograd context in which others multiply, carry and differentiate a tensor, and so
on. A list of acts is a small program: done by workers it tells lines, and the same list done in
one process, without any RPC (model/program/acts/expected.py), says which lines those must be.

A kind of act is a function in a module of ``model/program/acts/kinds/``, written against
:class:`squall.model.program.acts.executor.At`, which both ways of doing it provide:

    kind = kinds_of(__name__)

    @kind("wait", takes={"seconds"}, draw=draw_wait)
    def wait(act: Act, at: At) -> None:
        at.sleep(act.seconds)

That is all there is to add for a new one: how it is drawn, what it means and how it runs are in
that module, and to shrink it needs no more than its fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import ConfigDict

from squall.model.program.validated import Checked

#: how a call is made: ``rpc_sync``, ``rpc_async``, or ``remote`` whose value is fetched
How = Literal["sync", "async", "remote"]

#: the kind of act that opens an autograd context
CONTEXT = "context"

#: acts of a story at most, and how deep they may be in each other
MOST_ACTS = 40
DEEPEST = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Act(Checked):
    """One use of the API. ``acts`` are done inside it, by the worker that is called if there is
    one; ``then`` on this worker, when that has begun or, of a callback, when it has ended.

    ``worker``: the id of the worker that is called. ``seconds``, ``limit_s``: of virtual time; no
    limit is the default one of RPC, 0 is none. ``factor``: what is multiplied by. ``times``: how
    often a hook does something. What a kind does not look at is at its default.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    kind: str
    worker: int = 0
    how: How = "sync"
    seconds: float = 0.0
    limit_s: float | None = None
    factor: int = 1
    times: int = 1
    retain_graph: bool = True
    acts: tuple[Act, ...] = ()
    then: tuple[Act, ...] = ()


def every(acts: Iterable[Act]) -> Iterator[Act]:
    """All of them, and those inside them."""
    for act in acts:
        yield act
        yield from every(act.acts)
        yield from every(act.then)


def depth(acts: Iterable[Act]) -> int:
    """How deep they are in each other; 0 if there is none."""
    return max((1 + max(depth(act.acts), depth(act.then)) for act in acts), default=0)
