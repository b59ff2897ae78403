"""A finished run of a program, as the checks see it, and what a check finds.

A run is what was to happen (the program and its single-process outcome), what came of it (the
outcome on workers) and how (the events). Checks read these and nothing else. What computes with
torch is imported when it is asked for: violations are read without it.
"""

from __future__ import annotations

import inspect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from squall.model.events.digest import Record, digest_of
from squall.model.events.run_parts import (
    Computed,
    Judgement,
    Outcomes,
    ProcessEnds,
    ProcessGroups,
    RpcGroups,
    RunConditions,
    WhenStuck,
)
from squall.model.program.program import Program
from squall.real.tracing import FAULT_INJECTED, MESSAGE_SENT, EventType

if TYPE_CHECKING:
    import networkx as nx

    from squall.model.events.hang import Hang
    from squall.model.one_process.flow import Forecast
    from squall.model.one_process.outcome import Outcome
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


@dataclass
class Run:
    """A finished run, of a program or of a script, on either engine.

    ``records`` are its events; all else that checks and readers need to know of it stands beside
    them, most of it in parts (model/events/run_parts.py). What is not known, or not so of this kind
    of run, is left at its default.
    """

    records: Sequence[Record] = ()
    #: what ran, a program or the script of that path
    program: Program | None = None
    script: str | None = None
    engine: str = "port"
    #: how many workers there were, and their names by id
    workers: int = 0
    names: dict[int, str] = field(default_factory=dict)
    #: of a script: exceptions that its processes let through, and how else to start it, where that may be what is wrong
    errors: list[ProcessError] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    gradients: GradientSummary | None = None
    #: a line for each task that waited when nothing could happen any more
    waits: list[str] = field(default_factory=list)
    #: an error that left the run itself
    crash: str | None = None
    #: "interrupted" or "stopped" by somebody on the way; empty: it came to its own end
    broken_off: str = ""
    #: virtual time at the end
    ended_s: float = 0.0
    #: what does not hold, once somebody has checked
    violations: list[Violation] = field(default_factory=list)

    outcomes: Outcomes = field(default_factory=Outcomes)
    conditions: RunConditions = field(default_factory=RunConditions)
    processes: ProcessEnds = field(default_factory=ProcessEnds)
    rpc_groups: RpcGroups = field(default_factory=RpcGroups)
    process_groups: ProcessGroups = field(default_factory=ProcessGroups)
    computing: Computed = field(default_factory=Computed)
    when_stuck: WhenStuck = field(default_factory=WhenStuck)
    judged: Judgement = field(default_factory=Judgement)

    #: the workers as they were at the end, for tests; whoever keeps many runs lets go of it
    cluster: Any = None

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
        stall = self.process_groups.stall
        for outcome in WRONG_GROUPS:
            if self.process_groups.found.get(outcome):
                return outcome
        if self.errors or self.processes.failed or self.crash is not None:
            return "error" if stall is None else stall.outcome
        if self.waits:
            return "deadlock"
        if stall is not None and stall.is_wrong and not self.disturbed:
            return stall.outcome  # whoever has caught the error that came of it
        if self.gradients is not None and self.gradients.equal is False:
            return "gradients differ"
        if self.rpc_groups.leaks and not self.disturbed:
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
        if (
            self.process_groups.operations or self.process_groups.replicas_compared
        ):  # nobody waits for one for ever
            return None
        if self.script is not None and not self.workers:
            return "0 workers: no process has joined an RPC group"
        if not self.of(MESSAGE_SENT) and (self.program is None or not self.program.steps):
            return "no message crossed the network"
        return None

    @cached_property
    def digest(self) -> str:
        """32 hex digits over every event and its virtual time: equal runs, equal digests."""
        return self.judged.digests[0] if self.judged.digests else digest_of(self.records)

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
        if not self.when_stuck.waiting:
            return None
        from squall.model.events.waiting import wait_graph

        return wait_graph(self.records, self.when_stuck.waiting, names=self.names)

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
    def _forecasts(self) -> dict[tuple[int, int], Forecast]:
        return {}

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
        return self.script is not None and self.conditions.faulty and bool(self.of(FAULT_INJECTED))

    @property
    def settled(self) -> bool:
        """Whether it came to an end at which nothing is under way and nobody holds on to anything:
        a script that raises, or leaves its group without waiting for the others, leaves behind
        what it was at."""
        if self.stuck or self.crash is not None or self.broken_off:
            return False
        if self.script is None:
            return True
        failed = self.errors or self.processes.failed or self.disturbed
        return self.rpc_groups.left_well and not failed


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
