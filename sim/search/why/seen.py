"""What a witness notes of a run: lines, calls, messages, threads, errors, faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from squall.model.events.names import request_named
from squall.real.runtime import TaskOwner
from squall.sim.scripts.unended import Unended
from squall.sim.world.places import NOWHERE, CodePlace

#: how the types of messages begin that call functions
_FUNCTIONS = ("PYTHON_", "SCRIPT_", "FORWARD_AUTOGRAD")


@dataclass(eq=False)
class Call:
    """One call of a function on another worker. ``arguments`` and ``result`` are shortened; the result is empty as
    long as there is none. ``started``: the event at which it was made.
    ``began`` and ``ended``: events, -1 where it has not run."""

    src: int
    dst: int
    id: int
    task: int
    type: str
    place: CodePlace
    function: str = ""
    arguments: str = ""
    result: str = ""
    started: int = -1
    began: int = -1
    ended: int = -1
    #: whether it was made in an autograd context, and whether its arguments or its result have a graph
    in_context: bool = False
    graph: bool = False
    #: whether the function is none of a library's, which calls it on behalf of the user
    is_users: bool = False
    #: of the deletion of a reference: the line that had made it
    made: CodePlace = NOWHERE
    #: where it raised an error, and the file that it had not found
    raised: CodePlace = NOWHERE
    missing: str = ""

    @property
    def key(self) -> tuple[int, int]:
        """What tells it from others, in each run."""
        return self.src, self.id

    @property
    def may_be_users(self) -> bool:
        """Whether it calls a function of the user's, as far as that is known: of other engines' calls only the type
        is."""
        return self.is_users or (not self.function and self.type.startswith(_FUNCTIONS))

    @property
    def name(self) -> str:
        """The function; for messages that no line asks for by itself, their type in words."""
        return self.function or request_named(self.type)

    @property
    def said(self) -> str:
        return f"{self.name}({self.arguments})" if self.function else self.name


class Sent(NamedTuple):
    """A message: the call that it belongs to, if it does, and where it was sent."""

    src: int
    dst: int
    type: str
    call: Call | None
    is_reply: bool
    task: int
    place: CodePlace


class Task(NamedTuple):
    """A thread: what it is called, on which worker, what has started it, and where."""

    name: str
    worker: int
    parent: int
    cause: int


@dataclass(eq=False)
class Thread:
    """A thread that goes on: of which worker, where it was, and where it waited next (nowhere: it ended)."""

    name: str
    owner: TaskOwner | None
    at: CodePlace
    to: CodePlace = NOWHERE

    def who(self, owner: str) -> str:
        """The process, which is called that, where it is its main thread."""
        return f"thread {self.name} of {owner}" if self.name.startswith("Thread") else owner


class Raised(NamedTuple):
    """An error that ended a process: where in the user's code, the variables there, on which worker, and after how many
    events."""

    place: CodePlace
    variables: dict[str, str]
    worker: int | None
    event: int
    #: what was there then that somebody is to end, of all processes, and of the one that it ended
    unended: list[Unended]
    own: list[Unended]
    #: the worker on which a function has raised it, -1 for none, the file and the autograd context that were not found
    #: ("" and -1 for none), and its type
    remote: int
    missing: str
    context: int
    kind: type[BaseException]


class Died(NamedTuple):
    """A thread that an error has ended: of which worker, what it is called, the error, and where it went through the
    user's code last."""

    worker: int
    thread: str
    error: str
    place: CodePlace


class Site(NamedTuple):
    """What an operation is, and the line that it comes from; ``caller``: that which has called the function there, if
    it matters."""

    kind: str
    place: CodePlace
    caller: CodePlace = NOWHERE

    def __str__(self) -> str:
        return f"{self.place}{f', called at {self.caller}' if self.caller.file else ''}"

    @property
    def places(self) -> tuple[CodePlace, ...]:
        """The lines that it names."""
        return tuple(each for each in (self.place, self.caller) if each.file)


@dataclass(eq=False)
class Operation:
    """What a member of a process group has begun, on which worker. ``number``: of a collective, or the tag of a message.
    ``ended``: the event, -1 if it has not."""

    group: str
    member: int
    worker: int
    kind: str
    number: int
    task: int
    place: CodePlace
    began: int
    ended: int = -1
    #: the strings that the functions have in variables which have begun it
    words: Mapping[str, str] = field(default_factory=dict)
    #: whether it has ended without an error
    good: bool = False
    #: the lines that have called the function which has begun it, the nearest first
    callers: tuple[CodePlace, ...] = ()
    #: of a message: whether its memory was changed before it was read
    changed: bool = False
    #: of a message: to which member it is sent, or from which one it has come, -1 where that is not known yet
    peer: int = -1
    #: of a receive: whether it takes what comes first
    is_from_any: bool = False

    def site(self, *, callers: bool) -> Site:
        """``callers``: with the line that had called the function there."""
        return Site(self.kind, self.place, *(self.callers[:1] if callers else ()))


class Left(NamedTuple):
    """A worker that has left its group without waiting for the others: after how many events, where, and the line that
    had let it go on when it waited last."""

    worker: int
    event: int
    place: CodePlace
    woken: CodePlace


class Removed(NamedTuple):
    """A file or folder that was removed, and where."""

    path: str
    place: CodePlace


class Fault(NamedTuple):
    """A fault that happened, and the event that says so."""

    event: int
    kind: str
    src: int
    dst: int
    worker: int
    type: str
    sent: Sent | None
