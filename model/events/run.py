"""A finished run of a program, as the checks see it, and what a check finds.

A run is what was to happen (the program and its single-process outcome), what came of it (the
outcome on workers) and how (the events). Checks read these and nothing else. What computes with
torch is imported when it is asked for: violations are read without it.
"""

from __future__ import annotations

import contextlib
import inspect
import signal
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from squall.model.events.digest import Record, digest_of
from squall.model.events.kept import Kept
from squall.model.program.program import Program
from squall.real.tracing import FAULT_INJECTED, MESSAGE_SENT, EventType

if TYPE_CHECKING:
    import networkx as nx

    from squall.model.events.hang import Hang
    from squall.model.events.stream_order import StreamEvent
    from squall.model.events.waiting import Waiting
    from squall.model.one_process.flow import Forecast
    from squall.model.one_process.outcome import Outcome
    from squall.model.one_process.recovery import Recovery
    from squall.model.one_process.reference import GradientSummary
    from squall.model.program.compare import Tolerance

#: outcomes of runs in whose process groups something was wrong, and what it is in words
WRONG_GROUPS = {
    "mismatch": "collectives that do not go together",
    "tensor overwritten": "tensors that were written to before an operation with them was over",
    "wrong result": "collectives that have not come to what they are defined to be",
    "replicas differ": "replicas that differ",
}
#: the outcome of a run in which there was nothing to find
NOT_CHECKED = "not checked"
#: words of the lines that tell what a process died of
_TELLING = ("what():", "Assertion", "corruption", "free():", "malloc", "futex", "Fatal", "Error")
_TYPE = MESSAGE_SENT.fields.index("type")
_KIND = FAULT_INJECTED.fields.index("kind")


class Violation(NamedTuple):
    """One thing that should hold and does not.

    ``what`` names the kind of thing that broke, without ids, so that equal ones can be counted.
    ``events`` are the numbers of the events that show it.
    """

    property: str
    what: str
    expected: str
    seen: str
    worker: int | None = None
    time_s: float | None = None
    events: tuple[int, ...] = ()

    def __str__(self) -> str:
        where = "" if self.worker is None else f" on worker {self.worker}"
        when = "" if self.time_s is None else f" at t={self.time_s:.6f}"
        cited = "".join(f" #{number}" for number in self.events)
        text = f"{self.property}: {self.what}{where}{when}: expected {self.expected}, "
        return f"{text}seen {self.seen}" + (f" (events{cited})" if cited else "")

    def to_json(self) -> dict[str, Any]:
        return {**self._asdict(), "events": list(self.events)}


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


class ProcessError(NamedTuple):
    """An exception that a process's own code let through, or what the process died of.

    ``traceback`` has the script's own frames, as Python prints them.
    """

    worker: str
    rank: int | None
    type: str
    message: str
    traceback: str


#: the type of the error of a process that has died, and of one that has left with an exit code
DIED, EXITED = "Died", "Exited"


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
class Run:
    """A finished run, of a program or of a script, on either engine.

    ``records`` are its events; all else that checks and readers need to know of it stands beside
    them. What is not known, or not so of this kind of run, is left at its default.
    """

    records: Sequence[Record] = ()

    # -- of a program ----------------------------------------------------------------------
    program: Program | None = None
    #: what steps came to, in one process and on workers
    expected: Outcome | None = None
    got: Outcome | None = None
    #: the training after the faults, if there were any
    recovery: Recovery | None = None

    # -- of a script -----------------------------------------------------------------------
    script: str | None = None
    errors: list[ProcessError] = field(default_factory=list)
    #: how else to start the script, where that may be what is wrong
    hints: list[str] = field(default_factory=list)
    #: what each process ended with, by name
    exit_codes: dict[str, int] = field(default_factory=dict)
    #: those that say of the whole script that it failed
    failed_processes: list[str] = field(default_factory=list)
    gradients: GradientSummary | None = None
    #: left behind after a graceful shutdown, on all workers
    leaked_rrefs: int = 0
    leaked_contexts: int = 0
    #: references that were there until a graceful shutdown
    kept: list[Kept] = field(default_factory=list)
    #: whether every worker left its groups by a graceful shutdown, which waits for all
    left_well: bool = True
    #: (event, worker, group): who joined which group, before that event; and whether two groups
    #: were there at the same time
    joined: list[tuple[int, int, int]] = field(default_factory=list)
    overlapping: bool = False
    #: how many events there were when somebody began to choose the order
    chosen_from: int = 0
    #: texts of errors that nobody but the script saw, by worker
    caught: list[tuple[int, str]] = field(default_factory=list)
    #: whether each of its tasks may be late
    busy: bool = False
    #: what it printed, if that went nowhere else
    printed: str = ""
    #: (installed package, whether each process has executed it for itself, why); of the engine port
    packages: list[tuple[str, bool, str]] = field(default_factory=list)
    #: what was wrong in its process groups, by outcome (:data:`WRONG_GROUPS`)
    found: dict[str, list[str]] = field(default_factory=dict)
    #: how many collectives were compared with their definition
    results: int = 0
    #: how often ranks were asked whether their replicas agree
    replicas: int = 0
    #: where it was to be noted: what processes have spent time on, in the order of its ends, and steps of optimizers
    spent: list[Spent] = field(default_factory=list)
    steps: list[Stepped] = field(default_factory=list)
    #: the last operation that has failed since others did not do their part of it
    stall: Stall | None = None
    #: collectives and messages of process groups that have ended, each counted by each rank
    operations: int = 0
    #: by operator, if they take virtual time: how often it ran, and seconds of a processor in all
    computed: dict[str, tuple[int, float]] = field(default_factory=dict)
    #: by rank, what its processes gave back (sim/scripts/returned.py)
    returned: dict[int, bytes] = field(default_factory=dict)

    # -- of worker processes (engine torch) ------------------------------------------------
    deaths: list[Death] = field(default_factory=list)
    #: workers in which a callback locked memory that was freed
    torn: list[int] = field(default_factory=list)
    #: (worker, line): what the engine wrote to standard error about errors that reached nobody
    complaints: list[tuple[int, str]] = field(default_factory=list)
    #: each worker's counters when all was over but the shutdown
    tables: list[dict[str, int]] = field(default_factory=list)

    # -- of every run ----------------------------------------------------------------------
    #: what the streams of a device did, if the run used one whose streams tell
    stream_events: Sequence[StreamEvent] = ()
    engine: str = "port"
    #: how many workers there were, and their names by id
    workers: int = 0
    names: dict[int, str] = field(default_factory=dict)
    #: the limit of calls that were given none, in seconds; 0 for no limit, None: not known
    rpc_timeout_s: float | None = None
    #: whether the group began with the round of calls that opens its connections
    handshakes: bool = False
    #: virtual time at the end, and how long it took on this machine's clock
    ended_s: float = 0.0
    wall_time_s: float = 0.0
    #: a line for each task that waited when nothing could happen any more
    waits: list[str] = field(default_factory=list)
    #: what references the code of a script holds then, and where
    held: list[str] = field(default_factory=list)
    #: the same for the wait-for graph (model/events/waiting.py)
    waiting: Sequence[Waiting] = ()
    #: of a program, each worker's counters then, by PyTorch's names
    stuck_tables: list[dict[str, int]] = field(default_factory=list)
    #: an error that left the run itself
    crash: str | None = None
    #: "interrupted" or "stopped" by somebody on the way; empty: it came to its own end
    broken_off: str = ""
    #: whether something was to go wrong
    faulty: bool = False
    #: of the fault plan: what the engine cannot do
    left_out: list[str] = field(default_factory=list)
    #: of this run and of repetitions of it, and where a repetition parted from it
    digests: tuple[str, ...] = ()
    divergence: str | None = None
    #: the exceptions (model/checks/rref_allowances.py) that property ``rrefs`` had to make
    excuses: tuple[str, ...] = ()
    #: how often a check gave up, by excuse (model/checks/excuses.py)
    excused: Counter[str] = field(default_factory=Counter)
    #: what does not hold, once somebody has checked
    violations: list[Violation] = field(default_factory=list)
    #: the workers as they were at the end, for tests; whoever keeps many runs lets go of it
    cluster: Any = None
    _forecasts: dict[tuple[int, int], Forecast] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        """In a word: of a program "ok" or "failed" (some check does not hold); of a script "ok",
        one of :data:`WRONG_GROUPS`, "error", "deadlock", "gradients differ", "leak" or "failed"; of both "not checked" (see
        :attr:`unchecked`), "interrupted" or "stopped"."""
        if self.broken_off:
            return self.broken_off
        good = "ok" if self.unchecked is None else NOT_CHECKED
        if self.script is None:
            return "failed" if self.violations else good
        for outcome in WRONG_GROUPS:
            if self.found.get(outcome):
                return outcome
        if self.errors or self.failed_processes or self.crash is not None:
            return "error" if self.stall is None else self.stall.outcome
        if self.waits:
            return "deadlock"
        if self.stall is not None and self.stall.is_wrong and not self.disturbed:
            return self.stall.outcome  # whoever has caught the error that came of it
        if self.gradients is not None and self.gradients.equal is False:
            return "gradients differ"
        if (self.leaked_rrefs or self.leaked_contexts) and not self.disturbed:
            return "leak"
        return "failed" if self.violations else good

    @property
    def ok(self) -> bool:
        return self.outcome == "ok"

    @cached_property
    def unchecked(self) -> str | None:
        """Why there was nothing that a check could have found wrong; None if there was something.

        A run without a message can only have wrong gradients, and a script that calls
        ``backward`` is run for its gradients: if none of them could be compared, what else held
        is not what was asked for.
        """
        gradients = self.gradients
        if gradients is not None and gradients.passes and not gradients.compared:
            first = f": {gradients.not_comparable[0]}" if gradients.not_comparable else ""
            passes = "backward pass" if gradients.passes == 1 else "backward passes"
            return f"0 of {gradients.passes:,} {passes} compared{first}"
        if gradients is not None and gradients.compared:
            return None
        if self.operations or self.replicas:  # nobody waits for one for ever
            return None
        if self.script is not None and not self.workers:
            return "0 workers: no process has joined an RPC group"
        if not self.of(MESSAGE_SENT) and (self.program is None or not self.program.steps):
            return "no message crossed the network"
        return None

    @cached_property
    def digest(self) -> str:
        """32 hex digits over every event and its virtual time: equal runs, equal digests."""
        return self.digests[0] if self.digests else digest_of(self.records)

    @property
    def messages(self) -> dict[str, int]:
        """Messages sent, by type, the most frequent first."""
        counts = Counter(str(self.records[n][4][_TYPE]) for n in self.of(MESSAGE_SENT))
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    @property
    def faults(self) -> dict[str, int]:
        """What went wrong because of a fault plan, by kind."""
        return dict(Counter(str(self.records[n][4][_KIND]) for n in self.of(FAULT_INJECTED)))

    def wait_graph(self) -> nx.DiGraph[Any] | None:
        """Who waited for what when nothing could happen any more; None if nobody did."""
        if not self.waiting:
            return None
        from squall.model.events.waiting import wait_graph

        return wait_graph(self.records, self.waiting, names=self.names)

    def hang(self) -> Hang | None:
        """Why nothing could happen any more; None if nobody waited."""
        graph = self.wait_graph()
        if graph is None:
            return None
        from squall.model.events.hang import hang_of

        return hang_of(graph)

    def why(self) -> list[str]:
        """The same in lines, the cause first."""
        hang = self.hang()
        return list(self.waits) if hang is None else hang.lines

    @cached_property
    def _numbers(self) -> dict[EventType, list[int]]:
        found: defaultdict[EventType, list[int]] = defaultdict(list)
        for number, type in enumerate(map(itemgetter(3), self.records)):
            found[type].append(number)
        return found

    def of(self, *types: EventType) -> list[int]:
        """The numbers of the events of these types, in order."""
        numbers = self._numbers
        if len(types) == 1:
            return numbers.get(types[0], [])
        # Sorting what is made of a few sorted parts is linear.
        return sorted([n for type in types for n in numbers.get(type, ())])

    def violation(
        self, property: str, what: str, expected: object, seen: object, *events: int
    ) -> Violation:
        """A violation that shows at the last of ``events``."""
        if not events:
            return Violation(property, what, str(expected), str(seen))
        time_s, worker, *_ = self.records[events[-1]]
        return Violation(property, what, str(expected), str(seen), worker, time_s, events)

    def forecast(self, trainer: int, step: int) -> Forecast:
        """What the program itself says of a step, worked out once."""
        key = (trainer, step)
        known = self._forecasts.get(key)
        if known is None:
            assert self.program is not None, "only a program's steps can be forecast"
            from squall.model.one_process.flow import forecast

            known = self._forecasts[key] = forecast(self.program, trainer, step)
        return known

    @cached_property
    def tolerance(self) -> Tolerance:
        """How far values may be from those of one process: not at all in mode exact, else as
        far as the least precise dtype in the program allows."""
        from squall.model.program.compare import EXACT, coarsest
        from squall.model.program.dtypes import DTYPES

        program = self.program
        if program is None or program.mode == "exact":
            return EXACT
        names = {leaf.dtype for leaf in program.leaves}
        names.update(op.dtype for _, _, step in program.steps for op in step.ops)
        return coarsest(DTYPES[name] for name in names)

    @cached_property
    def as_local(self) -> Outcome:
        """What the program comes to where leaves share gradients as in plain local use; worked out
        only if somebody asks."""
        assert self.program is not None, "only a program can be computed in one process"
        from squall.model.one_process.as_pytorch import interpret_as_pytorch

        return interpret_as_pytorch(self.program)

    @cached_property
    def hangs(self) -> bool:
        """Whether some step is not to end."""
        return self.program is not None and any(
            self.forecast(trainer, number).unfed for trainer, number, _ in self.program.steps
        )

    @property
    def stuck(self) -> bool:
        """Whether somebody waited when nothing could happen any more."""
        return bool(self.waits)

    @property
    def disturbed(self) -> bool:
        """Whether a fault was injected into a script. What a worker then sends again may not have
        arrived when the script shuts down, which waits for no retry."""
        return self.script is not None and self.faulty and bool(self.of(FAULT_INJECTED))

    @property
    def settled(self) -> bool:
        """Whether it came to an end at which nothing is under way and nobody holds on to anything:
        a script that raises, or leaves its group without waiting for the others, leaves behind
        what it was at."""
        if self.stuck or self.crash is not None or self.broken_off:
            return False
        if self.script is None:
            return True
        failed = self.errors or self.failed_processes or self.disturbed
        return self.left_well and not failed


Check = Callable[[Run], Iterable[Violation]]
#: what a check reads is known of runs on every engine, or only of those on the port, whose workers
#: report their events
#: no name: all that there are
ALL_ENGINES: frozenset[str] = frozenset()
PORT_ONLY = frozenset({"port"})
TORCH_ONLY = frozenset({"torch"})
#: the work whose runs a check judges. What needs a program cannot judge a script, of which nobody
#: knows what it should come to; and a check of events judges both, a script's group by group.
Work = Literal["programs", "scripts", "both"]


class Property(NamedTuple):
    """Something that must hold for every run: a name, what it says, its check, and the engines
    whose runs it judges.

    ``work``: whether it judges runs of programs, of scripts, or of both. ``whole``: of a script,
    the run, and not each of its groups.
    """

    name: str
    description: str
    check: Check
    engines: frozenset[str] = ALL_ENGINES
    work: Work = "programs"
    whole: bool = False

    def judges(self, run: Run) -> bool:
        """Whether it says anything about such a run."""
        kind = "programs" if run.script is None else "scripts"
        return self.is_for(run.engine) and self.work in (kind, "both")

    def is_for(self, engine: str) -> bool:
        """Whether runs of that engine can be judged."""
        return not self.engines or engine in self.engines


def named(
    name: str,
    *,
    engines: frozenset[str] = ALL_ENGINES,
    work: Work = "programs",
    whole: bool = False,
) -> Callable[[Check], Property]:
    """Makes a property of a check, whose docstring says what must hold."""

    def decorate(check: Check) -> Property:
        description = " ".join((inspect.getdoc(check) or "").split())
        return Property(name, description, check, engines, work, whole)

    return decorate
