"""A state of distributed autograd: contexts, the graph between workers, and passes over it.

The words are those of PyTorch's note
(https://pytorch.org/docs/stable/rpc/distributed_autograd.html). An autograd message leaves a *send
function* on its sender and a *recv function* on its receiver: a *pair*. In a backward pass gradients
go from the recv function to the send function. What a worker does of a pass is its *part*.

All that belongs to a context stands in one record, also what each worker holds of it and what is on
its way, since contexts share nothing. The graph within a worker is not there; of that only counts to
which recv functions the gradients go on that come to a send function.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum
from operator import attrgetter

from squall.model.protocol.passes.number_set import NONE, Numbers

#: the maker of a context that nobody has made yet
UNMADE = -1
#: what began the part of the worker that the user called ``backward`` on
BY_USER = -1


class ContextStage(IntEnum):
    """What a worker has of a context."""

    ABSENT = 0
    LIVE = 1
    #: gone, and remembered: what comes later does not bring it back
    RELEASED = 2


class Way(IntEnum):
    """Where an autograd message has got to."""

    UNDER_WAY = 0
    ARRIVED = 1
    #: it will not come, and its sender does not know
    LOST = 2
    #: it never left, and its sender knows
    BACK = 3


class Gradients(IntEnum):
    """Where the gradients of a pair have got to in a pass."""

    UNDER_WAY = 0
    #: their receiver has found the context and the send function
    TAKEN_UP = 1
    #: they began the part of a worker, and are answered when that is over
    WORKED_ON = 2
    #: the answer is on its way: all is well
    ANSWERED = 3
    #: the answer is on its way: an error
    REFUSED = 4
    #: they, or the answer, will not come
    LOST = 5
    #: their sender has the answer
    HEARD = 6


class Progress(IntEnum):
    """How far the part of a worker is."""

    RUNNING = 0
    #: it has failed, and nothing more is run or sent
    FAILING = 1
    DONE = 2
    FAILED = 3
    #: the next pass ended it when all had come and was sent on: it may answer as that is answered
    FOLLOWED = 4


@dataclass(slots=True, eq=False)
class Pair:
    """An autograd message, and what it left at both ends."""

    #: its sender, which has the send function
    at: int
    #: its receiver, which has the recv function
    to: int
    #: pairs with a recv function on ``at``: gradients that come for this pair go on to them
    leads: Numbers = NONE
    #: it carries tensors that require grad; without any it only tells its receiver of the context
    joins: bool = True
    #: it answers a call. Of such a message the sender does not hear whether it came
    reply: bool = False
    way: Way = Way.UNDER_WAY
    #: the send function is there
    attached: bool = False
    #: the recv function is there
    received: bool = False

    def copy(self) -> Pair:
        return Pair(*_fields_of(self))

    def key(self) -> tuple[object, ...]:
        return _fields_of(self)


_fields_of = attrgetter(*(each.name for each in fields(Pair)))


@dataclass(slots=True, eq=False)
class WorkerPass:
    """What one worker does of a pass."""

    #: pairs whose send functions it waits for: those that were there when it began
    counted: Numbers
    #: the pair whose gradients began it, or BY_USER
    first: int
    #: those whose gradients have come
    fed: Numbers = NONE
    progress: Progress = Progress.RUNNING

    @property
    def runs(self) -> bool:
        return self.progress is Progress.RUNNING or self.progress is Progress.FAILING

    def copy(self) -> WorkerPass:
        return WorkerPass(self.counted, self.first, self.fed, self.progress)

    def key(self) -> tuple[object, ...]:
        return (self.counted, self.first, self.fed, self.progress)


@dataclass(slots=True, eq=False)
class Pass:
    """A call of ``backward``, and what came of it on all workers."""

    #: the worker of that call
    root: int
    #: pairs with a recv function there that the loss was computed from
    roots: Numbers
    #: by worker, where it has begun
    parts: dict[int, WorkerPass] = field(default_factory=dict)
    #: by pair, where they were sent
    gradients: dict[int, Gradients] = field(default_factory=dict)

    @property
    def succeeded(self) -> bool:
        return self.parts[self.root].progress is Progress.DONE

    @property
    def runs(self) -> bool:
        """Whether the call of ``backward`` has not returned."""
        return self.parts[self.root].runs

    def copy(self) -> Pass:
        parts = {worker: part.copy() for worker, part in self.parts.items()}
        return Pass(self.root, self.roots, parts, dict(self.gradients))

    def key(self) -> tuple[object, ...]:
        parts = tuple(sorted((worker, part.key()) for worker, part in self.parts.items()))
        return (self.root, self.roots, parts, tuple(sorted(self.gradients.items())))


@dataclass(slots=True, eq=False)
class Context:
    """An autograd context on all workers, its messages in the order in which they were sent, and its
    passes in the order in which they began."""

    maker: int = UNMADE
    stages: dict[int, ContextStage] = field(default_factory=dict)
    pairs: list[Pair] = field(default_factory=list)
    passes: list[Pass] = field(default_factory=list)
    #: by worker: the last pass that began there
    latest: dict[int, int] = field(default_factory=dict)
    #: by who tells and who is told of the release: copies that are on their way
    cleanups: dict[tuple[int, int], int] = field(default_factory=dict)
    #: those of them that have arrived once
    told: frozenset[tuple[int, int]] = frozenset()
    #: by pair: those that lead to it, among the first so many pairs; found as they are asked for
    _leading: dict[int, Numbers] = field(default_factory=dict, init=False)
    _indexed: int = field(default=0, init=False)

    def stage(self, worker: int) -> ContextStage:
        return self.stages.get(worker, ContextStage.ABSENT)

    def known_to(self, worker: int) -> Numbers:
        """The workers that it has sent something to: they have to hear of the release."""
        return Numbers(
            pair.to for pair in self.pairs if pair.at == worker and pair.way is not Way.BACK
        )

    def knows(self, worker: int, to: int) -> bool:
        """Whether ``to`` is among those that ``worker`` has sent something to."""
        return any(
            pair.at == worker and pair.to == to and pair.way is not Way.BACK for pair in self.pairs
        )

    def is_received(self, number: int, worker: int) -> bool:
        """Whether there is such a pair, with a recv function on that worker."""
        if not 0 <= number < len(self.pairs):
            return False
        pair = self.pairs[number]
        return pair.received and pair.to == worker

    def received(self, worker: int) -> Numbers:
        """The pairs with a recv function on a worker."""
        return Numbers(
            n for n, pair in enumerate(self.pairs) if pair.received and pair.to == worker
        )

    def settle(self, leads: Mapping[int, Numbers], leading: Mapping[int, Numbers]) -> None:
        """Say what pairs lead to, of which nothing has been known; and what leads to pairs."""
        self.leading_to(0)  # of those before
        for number, there in leads.items():
            self.pairs[number].leads = there
        for number, there in leading.items():
            self._leading[number] = self._leading.get(number, NONE) | there

    def leading_to(self, number: int) -> Numbers:
        """The pairs whose gradients go on to this one."""
        for later in range(self._indexed, len(self.pairs)):
            for each in self.pairs[later].leads:
                self._leading[each] = self._leading.get(each, NONE) | Numbers((later,))
        self._indexed = len(self.pairs)
        return self._leading.get(number, NONE)

    def running(self, worker: int) -> int | None:
        """The pass whose part runs on a worker."""
        for number, each in enumerate(self.passes):
            part = each.parts.get(worker)
            if part is not None and part.runs:
                return number
        return None

    def reached(self, roots: Numbers) -> Numbers:
        """The pairs that gradients come to which begin at these."""
        found = roots
        queue = list(roots)
        for number in queue:  # grows while it is walked
            more = self.pairs[number].leads - found
            found |= more
            queue += more
        return found

    def copy(self) -> Context:
        return Context(
            self.maker,
            dict(self.stages),
            [pair.copy() for pair in self.pairs],
            [each.copy() for each in self.passes],
            dict(self.latest),
            dict(self.cleanups),
            self.told,
        )

    def key(self) -> tuple[object, ...]:
        """Equal for equal contexts."""
        return (
            self.maker,
            tuple(sorted(self.stages.items())),
            tuple(pair.key() for pair in self.pairs),
            tuple(each.key() for each in self.passes),
            tuple(sorted(self.latest.items())),
            tuple(sorted(self.cleanups.items())),
            self.told,
        )
