"""What is known of a finished run beside its events, in parts (model/events/run.py).

What is not known, or not so of that kind of run, is left at its default.
"""

from __future__ import annotations

import contextlib
import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from squall.model.events.kept import Kept

if TYPE_CHECKING:
    from squall.model.events.stream_order import StreamEvent
    from squall.model.events.waiting import Waiting
    from squall.model.one_process.outcome import Outcome
    from squall.model.one_process.recovery import Recovery

#: words of the lines that tell what a process died of
_TELLING = ("what():", "Assertion", "corruption", "free():", "malloc", "futex", "Fatal", "Error")


class Spent(NamedTuple):
    """Seconds of virtual time that a process has spent on ``what``, an operator or ``sleep``."""

    worker: int
    start_s: float
    end_s: float
    what: str


class Stepped(NamedTuple):
    """An optimizer of a process has made a step; ``event``: how many events there were before."""

    worker: int
    at_s: float
    event: int


@dataclass(frozen=True)
class Death:
    """A worker process of the engine ``torch`` that ended by itself, which none should. ``worker`` is negative
    if it had not joined a group; then ``name`` says which it was."""

    worker: int
    #: negative: of that signal
    exit_code: int
    #: the last that it wrote
    stderr: str
    time_s: float
    name: str = ""

    @property
    def who(self) -> str:
        return self.name if self.worker < 0 else f"worker {self.worker}"

    def __str__(self) -> str:
        if self.exit_code < 0:
            with contextlib.suppress(ValueError):
                name = signal.Signals(-self.exit_code).name
                return f"{self.who} died of {name}: {self._said}"
        return f"{self.who} ended with exit code {self.exit_code}: {self._said}"

    @property
    def _said(self) -> str:
        lines = [line.strip() for line in self.stderr.splitlines() if line.strip()]
        lines = [line for line in lines if not line.startswith(("frame #", "[E", "[W"))]
        telling = [line for line in lines if any(word in line for word in _TELLING)]
        return (telling or lines or ["it said nothing"])[0]


class Stall(NamedTuple):
    """Why an operation of a process group has failed: "deadlock", "mismatch", or "error" if neither; who
    waited for whom, and where."""

    outcome: str
    lines: list[str]

    @property
    def is_wrong(self) -> bool:
        """Whether no time limit would have been long enough."""
        return self.outcome != "error"

    def after(self, known: Stall | None) -> Stall:
        """Which of the two tells more of a run: what is wrong whatever its limits are, else the later one."""
        return known if known is not None and known.is_wrong else self


@dataclass
class Outcomes:
    """What the steps of a program came to."""

    #: in one process, and on workers
    expected: Outcome | None = None
    got: Outcome | None = None
    #: the training after the faults, if there were any
    recovery: Recovery | None = None


@dataclass
class RunConditions:
    """Under which limits, faults and orders it ran."""

    #: the limit of calls that were given none, in seconds; 0 for no limit, None: not known
    rpc_timeout_s: float | None = None
    #: whether the group began with the round of calls that opens its connections
    handshakes: bool = False
    #: whether something was to go wrong
    faulty: bool = False
    #: of the fault plan: what the engine cannot do
    left_out: list[str] = field(default_factory=list)
    #: whether each of its tasks may be late
    busy: bool = False
    #: how many events there were when somebody began to choose the order
    chosen_from: int = 0


@dataclass
class ProcessEnds:
    """What its processes ended with, said and left."""

    #: what each process ended with, by name
    exit_codes: dict[str, int] = field(default_factory=dict)
    #: those that say of the whole script that it failed
    failed: list[str] = field(default_factory=list)
    #: texts of errors that nobody but the script saw, by worker
    caught: list[tuple[int, str]] = field(default_factory=list)
    #: what they printed, if that went nowhere else
    printed: str = ""
    #: by rank, what they gave back (sim/scripts/returned.py)
    returned: dict[int, bytes] = field(default_factory=dict)
    #: what their code made and did not end
    kept: list[Kept] = field(default_factory=list)
    #: (installed package, whether each process has executed it for itself, why); of the engine port
    packages: list[tuple[str, bool, str]] = field(default_factory=list)
    #: of the engine torch: those that ended by themselves
    deaths: list[Death] = field(default_factory=list)
    #: of the engine torch: workers in which a callback locked memory that was freed
    torn: list[int] = field(default_factory=list)
    #: (worker, line): what the engine torch wrote to standard error about errors that reached nobody
    complaints: list[tuple[int, str]] = field(default_factory=list)


@dataclass
class RpcGroups:
    """Who joined groups of RPC, how they left, and what was left there."""

    #: (event, worker, group): who joined which group, before that event; and whether two groups
    #: were there at the same time
    joined: list[tuple[int, int, int]] = field(default_factory=list)
    overlapping: bool = False
    #: whether every worker left its groups by a graceful shutdown, which waits for all
    left_well: bool = True
    #: left behind after a graceful shutdown, on all workers
    leaked_rrefs: int = 0
    leaked_contexts: int = 0
    #: of the engine torch: each worker's counters when all was over but the shutdown
    tables: list[dict[str, int]] = field(default_factory=list)

    @property
    def leaks(self) -> bool:
        return bool(self.leaked_rrefs or self.leaked_contexts)


@dataclass
class ProcessGroups:
    """What came of process groups."""

    #: what was wrong, by outcome (:data:`squall.model.events.run.WRONG_GROUPS`)
    found: dict[str, list[str]] = field(default_factory=dict)
    #: the last operation that has failed since others did not do their part of it
    stall: Stall | None = None
    #: collectives and messages that have ended, each counted by each rank
    operations: int = 0
    #: how many collectives were compared with their definition
    results_compared: int = 0
    #: how often ranks were asked whether their replicas agree
    replicas_compared: int = 0


@dataclass
class Computed:
    """What was computed, and how long that took."""

    #: where it was to be noted: what processes have spent time on, in the order of its ends, and steps of optimizers
    spent: list[Spent] = field(default_factory=list)
    optimizer_steps: list[Stepped] = field(default_factory=list)
    #: if they take virtual time: how often each operator ran, and seconds of a processor in all
    by_operator: dict[str, tuple[int, float]] = field(default_factory=dict)
    #: what the streams of a device did, if the run used one whose streams tell
    stream_events: Sequence[StreamEvent] = ()
    #: how long the run took on this machine's clock
    wall_time_s: float = 0.0


@dataclass
class WhenStuck:
    """How it stood when nothing could happen any more, although somebody waited."""

    #: the tasks that waited, for the wait-for graph (model/events/waiting.py)
    waiting: Sequence[Waiting] = ()
    #: what references the code of a script held, and where
    held: list[str] = field(default_factory=list)
    #: of a program, each worker's counters, by PyTorch's names
    tables: list[dict[str, int]] = field(default_factory=list)


@dataclass
class Judgement:
    """What checks and repetitions of the run came to, beside violations."""

    #: the exceptions (model/checks/rref_allowances.py) that property ``rrefs`` had to make
    excuses: tuple[str, ...] = ()
    #: how often a check gave up, by excuse (model/checks/excuses.py)
    excused: Counter[str] = field(default_factory=Counter)
    #: of this run and of repetitions of it, and where a repetition parted from it
    digests: tuple[str, ...] = ()
    divergence: str | None = None
