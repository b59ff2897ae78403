"""Other processes that explore ahead what one of them, which owns the tree of choices, will need."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from squall.sim.explore.tree import Explored, Frame, Subtree, next_subtrees
from squall.sim.world.garbage import settle
from squall.sim.world.sandbox import Contained

#: executions between two words of a helper about how far it is
_TELL_EVERY = 32
#: choices that a subtree has to begin before the last one, so that it is worth its way
_LEAST_DEPTH = 4

Work = Callable[..., None]


class _Far(NamedTuple):
    """How far a helper is: executions of its subtree, and whether something did not hold in one."""

    executions: int
    failed: bool


class _Helper:
    """A process, and where the subtree is that it is at."""

    def __init__(self, work: Work, args: tuple[Any, ...]) -> None:
        self.copy = Contained(_serve, work, args)
        #: number of the frame that its subtree follows, and the name that is chosen there
        self.at: tuple[int, int] | None = None
        self.far = _Far(0, False)

    def begin(self, at: tuple[int, int], subtree: Subtree) -> None:
        self.at, self.far = at, _Far(subtree.executions, False)
        self._send(subtree)

    def told(self) -> Subtree | None:
        """Take what it has said: the subtree once it is done with it."""
        while self.copy.connection.poll():
            subtree = self._received()
            if subtree is not None:
                return subtree
        return None

    def back(self) -> Subtree:
        """Have the subtree back, as far as it is explored."""
        self._send(None)
        while (subtree := self._received()) is None:
            pass
        return subtree

    def _received(self) -> Subtree | None:
        try:
            said = self.copy.connection.recv()
        except (EOFError, ConnectionError):
            code = self.copy.wait()
            raise RuntimeError(f"a process ended while it explored: exit code {code}") from None
        if isinstance(said, BaseException):
            raise said
        if isinstance(said, Subtree):
            self.at, self.far = None, _Far(0, False)
            return said
        self.far = said
        return None

    def _send(self, what: Subtree | None) -> None:
        try:
            self.copy.connection.send(what)
        except ConnectionError:
            self._received()  # what it has said last may say why


class Helpers:
    """At most ``most`` processes, copies of this one, each of which calls
    ``work(subtree, goes_on, *args)`` for one subtree at a time. They are made when they are needed
    first. A context manager.
    """

    def __init__(self, most: int, work: Work, args: tuple[Any, ...]) -> None:
        self._most = most
        self._work = work
        self._args = args
        self._helpers: list[_Helper] = []
        #: executions of what is kept with frames, and not counted yet
        self._kept = 0

    def __enter__(self) -> Helpers:
        return self

    def __exit__(self, *_: object) -> None:
        for helper in self._helpers:
            helper.copy.end()

    @property
    def executions(self) -> int:
        """How many there were that are not counted yet."""
        return self._kept + sum(helper.far.executions for helper in self._helpers)

    @property
    def found(self) -> bool:
        """Whether something did not hold in what they are at."""
        return any(helper.far.failed for helper in self._helpers)

    def share(self, frames: list[Frame]) -> None:
        """Keep all of them at work: what they have done is noted at ``frames``."""
        idle = 0
        for helper in self._helpers:
            self._note(helper, frames)
            idle += helper.at is None
        if not idle and len(self._helpers) >= self._most:
            return
        shared = frames[: max(0, len(frames) - _LEAST_DEPTH)]
        taken = frozenset(helper.at for helper in self._helpers if helper.at is not None)
        subtrees = next_subtrees(shared, taken)
        for subtree in subtrees:
            helper = self._idle()
            at = len(subtree.way) - 1
            name = subtree.way[-1].chosen
            if frames[at].ahead.pop(name, None) is not None:
                self._kept -= subtree.executions
            helper.begin((at, name), subtree)
            idle -= 1
            if idle <= 0 and len(self._helpers) >= self._most:
                return

    def take(self, frames: list[Frame]) -> Subtree | None:
        """What has been explored of what follows ``frames``: nobody is at that any more."""
        at = len(frames) - 1, frames[-1].chosen
        for helper in self._helpers:
            if helper.at == at:
                return helper.back()
        subtree = frames[-1].ahead.pop(frames[-1].chosen, None)
        if subtree is not None:
            self._kept -= subtree.executions
        return subtree

    def give_back(self, frames: list[Frame]) -> None:
        """Note at ``frames`` what all of them have done. They are at nothing then."""
        for helper in self._helpers:
            if helper.at is not None:
                at, name = helper.at
                frames[at].ahead[name] = helper.back()

    def _note(self, helper: _Helper, frames: list[Frame]) -> None:
        if helper.at is None:
            return
        at, name = helper.at
        subtree = helper.told()
        if subtree is not None:
            frames[at].ahead[name] = subtree
            self._kept += subtree.executions

    def _idle(self) -> _Helper:
        for helper in self._helpers:
            if helper.at is None:
                return helper
        helper = _Helper(self._work, self._args)
        self._helpers.append(helper)
        return helper


def _serve(connection: Connection, work: Work, args: tuple[Any, ...]) -> None:
    """What a helper does: one subtree after the other."""

    def goes_on(explored: Explored) -> bool:
        if explored.executions % _TELL_EVERY == 0:
            connection.send(_Far(explored.executions, bool(explored.found)))
        if not connection.poll():
            return True
        connection.recv()  # there is nothing else that could be there
        return False

    settle()
    while True:
        subtree = connection.recv()
        if subtree is None:
            continue  # it was done before it was asked for
        try:
            work(subtree, goes_on, *args)
        except BaseException as error:
            connection.send(error)
            return
        connection.send(subtree)
