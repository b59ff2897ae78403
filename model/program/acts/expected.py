"""Acts in one process: what they must come to, without any RPC.

A model of what the API promises, with a clock of its own. Calls take no time but that of what they
do; who is called does it at once, on a clock that starts at the caller's, and the caller's goes on
when it waits. So it says when each call ends, and which of its limits of time has passed by then.
Where that would depend on how long a message takes, or on which of two things is first, the acts
are no valid ones: :class:`ActError`.

Sources: what calls, references, passes and hooks come to is said with :class:`At` and in
properties/sim/programs/test_acts.py, which stock PyTorch is asked as well.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from squall.model.program.acts.act import Act, How
from squall.model.program.acts.executor import At, Pending
from squall.model.program.acts.kind import kind_of
from squall.model.program.strict_json import MadeError

#: what happens at least so many seconds apart has an order; messages take much less
MARGIN_S = 0.3

PROGRAM_ERROR, RUNTIME_ERROR = "StoryError", "RuntimeError"
PLANTED_THERE, TIMED_OUT = "planted", "timed out"
CREATION_TIMED_OUT, FREED = "creation timed out", "freed"
#: a task has one context at most, and calls hand it on
HAS_ONE = "has a context"
#: errors as they are told, and how a line begins that tells of none
_ERRORS = frozenset(
    f"{type}: {kind}"
    for type in (PROGRAM_ERROR, RUNTIME_ERROR)
    for kind in (PLANTED_THERE, CREATION_TIMED_OUT, FREED, HAS_ONE)
)
WELL = "well on "


def timed_out(limit_ms: int) -> str:
    """What kind of error it is that a call ran for more than its limit, which the error names."""
    return f"{TIMED_OUT} after {limit_ms} ms"


class ActError(MadeError):
    """Acts make no sense. The text names the place and says what is wrong there."""


class _UnclearError(Exception):
    """What comes of acts is not certain, or would be a hang."""


class AloneError(Exception):
    """An error of a program that is done alone: its type, and what kind of error it is."""

    def __init__(self, type: str, kind: str) -> None:
        super().__init__(type, kind)
        self.type = type
        self.kind = kind

    def __str__(self) -> str:
        return f"{self.type}: {self.kind}"


@dataclass(slots=True)
class _Node:
    """A step of the computation in a context, by the number of its tensor: what made that, or a
    hook that does ``acts``."""

    worker: int
    tensor: int
    factor: int = 1
    freed: bool = False
    is_hook: bool = False
    acts: tuple[Act, ...] = ()
    times: int = 0


@dataclass(slots=True)
class _Context:
    """An autograd context with one leaf, from which a chain of nodes leads to the tensor."""

    chain: list[_Node] = field(default_factory=list)
    #: how many tensors were made of the leaf
    tensors: int = 0
    gradient: int | None = None
    #: what hooks told, by worker
    told: dict[int, list[str]] = field(default_factory=dict)
    passing: bool = False
    #: whether a call with the tensor failed, so that a pass would never end
    broken: bool = False


#: from a worker to a worker, with a limit of time in seconds
Limited = tuple[int, int, float]


@dataclass(slots=True)
class _World:
    """What all share: how late it was anywhere, and the calls with a limit of their own."""

    latest: float = 0.0
    limited: Counter[Limited] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What came of acts, and when."""

    at: float
    lines: tuple[str, ...] = ()
    failure: AloneError | None = None

    def get(self) -> tuple[str, ...]:
        if self.failure is not None:
            raise AloneError(self.failure.type, self.failure.kind)
        return self.lines


@dataclass(slots=True)
class _Reference:
    """What refers to an outcome: for its creator until ``until``. Whoever has it asks for its type
    once."""

    owner: int
    outcome: _Outcome
    until: float = math.inf
    typed: bool = False


class _AlonePending(Pending):
    def __init__(self, at: Alone, outcome: _Outcome) -> None:
        self._at = at
        self._outcome = outcome

    def wait(self) -> None:
        at = self._at
        at.clock = max(at.clock, self._outcome.at)
        at.lines += self._outcome.get()

    def then(self, acts: Sequence[Act]) -> Pending:
        before = self._outcome
        if before.failure is not None:
            return _AlonePending(self._at, _called(before))
        there = self._at.elsewhere(self._at.worker, before.at)
        there.inner = True
        done = there.outcome_of(acts)
        done = _Outcome(done.at, (*before.lines, *done.lines), done.failure)
        return _AlonePending(self._at, _called(done))


class Alone(At):
    """A worker that there is only in thought."""

    def __init__(self, worker: int, world: _World, clock: float = 0.0) -> None:
        super().__init__(worker)
        self.world = world
        self.clock = clock
        self.in_context: _Context | None = None
        #: whether the task has an autograd context, which calls hand on
        self.covered = False
        #: whether this is done in a callback or in a hook, or is called by one
        self.inner = False

    def elsewhere(self, worker: int, clock: float) -> Alone:
        there = Alone(worker, self.world, clock)
        there.covered, there.inner = self.covered, self.inner
        return there

    def do(self, acts: Sequence[Act]) -> None:
        for act in acts:
            kind = kind_of(act)
            if kind.in_creation and not self.references:
                raise _UnclearError("there is no reference here")
            if kind.in_context is True and self.in_context is None:
                raise _UnclearError("there is no autograd context here")
            if self.inner and not kind.inner:
                raise _UnclearError("it is done in a callback or in a hook")
            kind.do(act, self)
            self.world.latest = max(self.world.latest, self.clock)

    def outcome_of(self, acts: Sequence[Act]) -> _Outcome:
        """What comes of acts here."""
        try:
            self.do(acts)
        except AloneError as failure:
            self.world.latest = max(self.world.latest, self.clock)
            return _Outcome(self.clock, failure=failure)
        return _Outcome(self.clock, tuple(self.lines))

    # -- what kinds of acts ask for ---------------------------------------------------------------

    def sleep(self, seconds: float) -> None:
        self.clock += seconds

    def fail(self) -> None:
        raise AloneError(PROGRAM_ERROR, PLANTED_THERE)

    def said(self, error: Exception) -> str:
        if not isinstance(error, AloneError):
            raise error
        return str(error)

    def call(
        self,
        to: int,
        acts: Sequence[Act],
        limit_s: float | None,
        *,
        how: How = "async",
        with_reference: bool = False,
    ) -> Pending:
        there = self.elsewhere(to, self.clock)
        if with_reference:
            reference = self.references[-1]
            self._usable(reference)
            there.references.append(_Reference(reference.owner, reference.outcome))
        self._begins(to, limit_s)
        outcome = _called(there.outcome_of(acts))
        pending = _AlonePending(self, self._limited(outcome, limit_s))
        if how == "sync":
            pending.wait()
        return pending

    def call_later(
        self, to: int, acts: Sequence[Act], seconds: float, limit_s: float | None
    ) -> None:
        self._begins(to, limit_s)
        there = self.elsewhere(to, self.clock + seconds)
        there.inner = True
        outcome = _called(there.outcome_of(acts))
        _AlonePending(self, self._limited(outcome, limit_s)).wait()

    def create(self, to: int, acts: Sequence[Act], limit_s: float | None) -> None:
        self._begins(to, limit_s)
        outcome = self.elsewhere(to, self.clock).outcome_of(acts)
        until = math.inf
        if limit_s and _before(self.clock + limit_s, outcome.at):
            until = self.clock + limit_s
        self.references.append(_Reference(to, outcome, until))

    def fetch(self, limit_s: float | None) -> None:
        reference = self.references[-1]
        self._usable(reference)
        outcome = reference.outcome
        if reference.owner != self.worker:
            self._begins(reference.owner, limit_s)
        if reference.owner == self.worker:
            limit_s = 0  # an owner waits for its own value without a limit
        elif outcome.at <= self.clock:
            limit_s = 0  # it is there
        pending = _AlonePending(self, self._limited(outcome, limit_s))
        pending.wait()

    def ask(self, acts: Sequence[Act], limit_s: float | None, how: How) -> None:
        reference = self.references[-1]
        self._usable(reference)
        made, owner = reference.outcome, reference.owner
        if made.failure is not None:
            raise _UnclearError("a proxy of what was never made")
        if owner != self.worker and not reference.typed:
            self._begins(owner, limit_s)
        if made.at > self.clock:  # the proxy asks for the type first, in a call of its own
            typed = _Outcome(made.at)
            if owner != self.worker:
                typed = self._limited(typed, limit_s)
            _AlonePending(self, typed).wait()
            reference.typed = True
            self._usable(reference)  # by now its creation may have failed for this worker
        reference.typed = True
        if how == "remote":
            self.create(owner, acts, limit_s)
            try:
                self.fetch(None)
            finally:
                self.references.pop()
        else:
            self.call(owner, acts, limit_s, how="sync")

    def _begins(self, to: int, limit_s: float | None) -> None:
        """A call is sent."""
        if limit_s:
            self.world.limited[self.worker, to, limit_s] += 1

    def _usable(self, reference: _Reference) -> None:
        if not math.isfinite(reference.until):
            return
        if _before(reference.until, self.clock):
            raise AloneError(RUNTIME_ERROR, CREATION_TIMED_OUT)
        if reference.owner == self.worker:
            # PyTorch: whoever waits then waits for ever (docs/findings.md).
            raise _UnclearError("a creation on oneself takes too long, and its value is waited for")

    def _limited(self, outcome: _Outcome, limit_s: float | None) -> _Outcome:
        if not limit_s or not _before(self.clock + limit_s, outcome.at):
            return outcome
        return _Outcome(
            self.clock + limit_s, failure=AloneError(RUNTIME_ERROR, timed_out(int(limit_s * 1000)))
        )

    def context(self, acts: Sequence[Act]) -> None:
        if self.covered:
            raise AloneError(RUNTIME_ERROR, HAS_ONE)
        self.in_context = context = _Context()
        self.covered = True
        try:
            self.do(acts)
        finally:
            self.in_context = None
            self.covered = False
        gradient = "none" if context.gradient is None else str(context.gradient)
        self.tell(f"gradient {gradient}")
        for worker in sorted(context.told):
            self.lines += context.told[worker]

    def multiply(self, factor: int) -> None:
        context = self._context()
        context.tensors += 1
        context.chain.append(_Node(self.worker, context.tensors, factor))

    def carry(self, to: int, acts: Sequence[Act], how: How) -> None:
        there = self.elsewhere(to, self.clock)
        there.in_context = context = self._context()
        context.tensors += 1  # that which arrives there, and then that which arrives here
        outcome = there.outcome_of(acts)
        context.tensors += 1
        context.broken |= outcome.failure is not None
        _AlonePending(self, outcome if how == "remote" else _called(outcome)).wait()

    def hook(self, acts: Sequence[Act], times: int) -> None:
        context = self._context()
        context.told.setdefault(self.worker, [])
        context.chain.append(
            _Node(self.worker, context.tensors, is_hook=True, acts=tuple(acts), times=times)
        )

    def release_another(self) -> None:
        pass

    def backward(self, retain_graph: bool) -> None:
        context = self._context()
        if context.passing:
            raise _UnclearError("a pass is under way in its context")
        if context.broken:
            raise _UnclearError("a call with the tensor failed, so a pass would not end")
        context.passing = True
        gradient = 1
        try:
            # The last tensor first: its hooks, in the order in which they were put on it, and then
            # what made it.
            for node in sorted(context.chain, key=lambda node: (-node.tensor, not node.is_hook)):
                if node.is_hook:
                    if node.times:
                        node.times -= 1
                        self._hooked(context, node)
                else:
                    if node.freed:
                        raise AloneError(RUNTIME_ERROR, FREED)
                    gradient *= node.factor
                    node.freed = not retain_graph
        finally:
            context.passing = False
        context.gradient = gradient + (context.gradient or 0)

    def _hooked(self, context: _Context, node: _Node) -> None:
        there = self.elsewhere(node.worker, self.clock)
        there.inner, there.in_context = True, context
        there.lines = context.told[node.worker]
        outcome = there.outcome_of(node.acts)
        self.clock = outcome.at
        if outcome.failure is not None:
            raise AloneError(RUNTIME_ERROR, outcome.failure.kind)

    def _context(self) -> _Context:
        if self.in_context is None:
            raise _UnclearError("there is no autograd context here")
        return self.in_context


def _called(outcome: _Outcome) -> _Outcome:
    """What a call comes to, by what its function comes to: of an error the call keeps the text,
    and the type only if it is ValueError or TypeError. A fetched reference keeps all types."""
    if outcome.failure is None:
        return outcome
    return _Outcome(outcome.at, failure=AloneError(RUNTIME_ERROR, outcome.failure.kind))


def _before(one: float, other: float) -> bool:
    """Whether one moment is before the other. Raises _UnclearError if they are close to each other."""
    if abs(one - other) < MARGIN_S:
        raise _UnclearError(f"two things happen at about {one:g} s, one of them as a limit passes")
    return one < other


def may_be_told(line: str) -> bool:
    """Whether acts tell such a line, whatever fails."""
    return line in _ERRORS or line.startswith((WELL, f"{RUNTIME_ERROR}: {TIMED_OUT} after "))


@dataclass(frozen=True, slots=True)
class ActsOutcome:
    """What acts come to: the lines that they tell, the seconds after which all is over, and how many
    calls they make with a limit of time of their own."""

    lines: tuple[str, ...]
    seconds: float
    limited: Mapping[Limited, int]


def told_alone(acts: Sequence[Act], home: int) -> ActsOutcome:
    """What acts of worker ``home`` must come to. Raises ActError if that is not certain."""
    world = _World()
    at = Alone(home, world)
    try:
        outcome = at.outcome_of(acts)
    except _UnclearError as unclear:
        raise ActError(f"acts: what comes of them is not certain: {unclear}") from None
    lines = tuple(at.lines)
    if outcome.failure is not None:
        lines = (*lines, str(outcome.failure))
    return ActsOutcome(lines, world.latest, world.limited)
