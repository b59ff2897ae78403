"""A run as pictures need it: its events, what came of it, and how to see it again."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squall.model.checks.registry import check
from squall.model.checks.scripts import raised
from squall.model.events.digest import Record
from squall.model.events.names import Names
from squall.model.events.run import ProcessError, Run, Violation
from squall.real import tracing
from squall.sim.scenario import Scenario
from squall.sim.scenarios.failure import Failure
from squall.sim.scripts.raised_error import RankError, rank_error
from squall.sim.world.trace import Trace

_MESSAGES = (tracing.MESSAGE_SENT, tracing.MESSAGE_DELIVERED, tracing.MESSAGE_DROPPED)


@dataclass
class Recording:
    """A finished run to look at.

    ``records`` are its events, ``violations`` what it broke, ``waits`` a line for each task that
    waited when nothing could happen any more, ``replay`` a command line that shows it again.
    ``facts`` are further lines for the summary. Times are seconds of virtual time.
    """

    records: Sequence[Record]
    title: str = "a run"
    outcome: str = "ok"
    digest: str = ""
    replay: str = ""
    violations: tuple[Violation, ...] = ()
    waits: tuple[str, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)
    #: names of workers by id, where they are not worker0, worker1, …
    names: dict[int, str] = field(default_factory=dict)
    ended_s: float = 0.0
    #: by events at which calls begin: the function, and the line that makes it, where they were noted
    functions: dict[int, str] = field(default_factory=dict)
    places: dict[int, str] = field(default_factory=dict)
    #: what decided that it fails, as ``squall why`` tells it, and the events that this is about, in words, where that
    #: is known; else a command that looks for it
    cause: str = ""
    #: what was to go wrong, in words
    planned: Sequence[str] = ()
    marks: dict[int, str] = field(default_factory=dict)
    why: str = ""
    #: the same as the checks see it
    seen: Run | None = None

    @cached_property
    def run(self) -> Run:
        """The run as checks see it; without its program, if that was not given."""
        if self.seen is not None:
            return self.seen
        return Run(self.records, ended_s=self.ended_s, waits=list(self.waits))

    def __len__(self) -> int:
        return len(self.records)

    @cached_property
    def times(self) -> NDArray[np.float64]:
        """The virtual time of each event, in seconds."""
        return np.fromiter((record[0] for record in self.records), np.float64, len(self.records))

    @cached_property
    def workers_of(self) -> NDArray[np.int32]:
        """The worker at which each event happened, -1 where it belongs to none.

        A message belongs to who sends it and, when it arrives, to who gets it; a task to the
        worker that it works for later on.
        """
        found = np.fromiter((record[1] for record in self.records), np.int32, len(self.records))
        home: dict[int, int] = {}
        for _, worker, task, _, _ in self.records:
            if worker >= 0 and task:
                home.setdefault(task, worker)
        for number in np.flatnonzero(found < 0).tolist():
            _, _, task, type, values = self.records[number]
            if type is tracing.MESSAGE_SENT:
                found[number] = values[1]
            elif type in _MESSAGES:
                found[number] = values[2]
            elif type is tracing.FAULT_INJECTED:
                found[number] = max(values[2], values[3])
            else:
                found[number] = home.get(task, -1)
        return found

    @cached_property
    def workers(self) -> list[int]:
        """The ids of all workers that did anything, in order."""
        ids = set(self.workers_of.tolist()) | set(self.names)
        return sorted(worker for worker in ids if worker >= 0)

    def name(self, worker: int) -> str:
        """A worker for readers."""
        return self.names.get(worker, f"worker{worker}" if worker >= 0 else "-")

    @cached_property
    def called(self) -> Names:
        """What tasks, calls and messages are called."""
        asked = {
            (self.records[n][1], self.records[n][4][0]): name for n, name in self.functions.items()
        }
        names = {worker: self.name(worker) for worker in self.workers}
        return Names(self.records, names, asked, self.places)

    @cached_property
    def last(self) -> int:
        """The number of the last event, 0 if there is none."""
        return max(len(self.records) - 1, 0)

    def time_s(self, number: int) -> float:
        """When an event happened, in seconds of virtual time."""
        return float(self.records[number][0]) if self.records else 0.0

    @property
    def ok(self) -> bool:
        return self.outcome == "ok" and not self.violations

    @cached_property
    def failure(self) -> int:
        """The event at which it went wrong, -1 if it did not, or nobody knows: the first that a violation cites, the
        last of a process that raised an error, the last of all where nothing can happen any more, or the first at
        which a function or a pass ended in an error."""
        cited = [n for each in self.violations for n in each.events if n < len(self)]
        if cited:
            return min(cited)
        raised = [n for error in self.run.errors if (n := self._last_of(error)) >= 0]
        if raised:
            return min(raised)
        if self.waits:
            waiting = self.run.when_stuck.waiting
            last = (waiting[0].noted or len(self)) - 1 if waiting else self.last
            return next((n for n in range(last, 0, -1) if self.workers_of[n] >= 0), last)
        return -1 if self.ok else self._first_error()

    @property
    def opened_at(self) -> int:
        """The event that a page shows first: the first that decided a failure, or else that at which it went wrong."""
        return min(self.marks, default=self.failure)

    @cached_property
    def errors(self) -> list[RankError]:
        """What processes have raised, as it is told elsewhere."""
        return [rank_error(error, self.run.script or "") for error in self.run.errors]

    @property
    def besides(self) -> list[Violation]:
        """What was violated, beside those errors and the waits that nothing can end."""
        hang = self.run.hang()
        told = set() if hang is None else {hang.cause}
        return [each for each in self.violations if not raised(each) and each.seen not in told]

    @property
    def wrong(self) -> str:
        """What went wrong, in a line; "" if nobody has said."""
        if self.run.errors:
            error = self.run.errors[0]
            return (
                f"{error.worker} raised {error.type}: {error.message.strip().partition(chr(10))[0]}"
            )
        return ""

    def _last_of(self, error: ProcessError) -> int:
        """The last event of the program of the worker that raised an error."""
        ids = {id for id, name in self.names.items() if name == error.worker}
        ids |= set() if error.rank is None else {error.rank}
        mains = {self.called.main(id) for id in ids}
        return max((n for n, record in enumerate(self.records) if record[2] in mains), default=-1)

    def _first_error(self) -> int:
        for number, (_, _, _, type, values) in enumerate(self.records):
            if type in (tracing.UDF_ENDED, tracing.PASS_ENDED) and values[1]:
                return number
        return -1


def recording(thing: object, **more: Any) -> Recording:
    """Anything that has run, to look at: a Recording, a :class:`squall.model.events.run.Run`, a
    :class:`squall.sim.world.trace.Trace`, a Cluster, or records.

    ``more`` replaces fields of the Recording. Raises TypeError for anything else.
    """
    if isinstance(thing, Recording):
        for name, value in more.items():
            setattr(thing, name, value)
        return thing
    if isinstance(thing, Run):
        return _of_run(thing, more)
    if isinstance(thing, Trace):
        return _of_trace(thing, more)
    if isinstance(getattr(thing, "trace", None), Trace):
        return _of_trace(thing.trace, {"names": _names(thing), **more})  # type: ignore[attr-defined]
    if isinstance(thing, list | tuple) and (not thing or _is_record(thing[0])):
        return _filled(Recording(thing, **more))
    known = "a Run, a Trace, a Cluster or a Recording"
    raise TypeError(f"there is nothing to picture in {type(thing).__name__}, expected {known}")


def _is_record(thing: object) -> bool:
    return isinstance(thing, tuple) and len(thing) == 5


def _of_run(run: Run, more: dict[str, Any]) -> Recording:
    violations = tuple(run.violations)
    if not violations and run.outcomes.expected is not None:
        violations = tuple(check(run))
    fields = {
        "outcome": _outcome(run, violations),
        "violations": violations,
        "digest": run.digest,
        "waits": tuple(run.why()),
        "names": run.names,
        "ended_s": run.ended_s,
        **more,
    }
    if run.script is not None:
        fields["facts"] = _facts(run) | fields.get("facts", {})
    return _filled(Recording(run.records, seen=run, **fields))


def _outcome(run: Run, violations: tuple[Violation, ...]) -> str:
    if run.script is not None or run.broken_off:
        return run.outcome
    if violations:
        return "violated: " + ", ".join(_distinct(v.property for v in violations))
    if run.crash:
        return f"crash: {run.crash}"
    if run.waits:
        return "hangs, as predicted" if run.hangs else "deadlock"
    return "ok"


def planned(run: Recording, scenario: Scenario) -> list[str]:
    """What was to go wrong in a run of this scenario, in words."""
    return [item.told(run.called.workers) for _, _, item in scenario.faults.items()]


def explained(
    run: Recording, scenario: Scenario, words: Sequence[str], kept: Failure | None
) -> None:
    """Add to a run of this scenario, which ``words`` name, what was to go wrong, and what decided that it fails: what is
    ``kept`` with the failure, if it fails as it did then."""
    run.planned = planned(run, scenario)
    if run.ok:
        return
    if kept is not None and kept.why and scenario.expected.digest in (None, run.digest):
        run.cause, run.marks = (
            kept.why,
            {n: text for n, text in kept.marks.items() if 0 <= n < len(run)},
        )
    else:
        run.why = shlex.join(["squall", "why", *words])


def facts_of(scenario: Scenario) -> dict[str, str]:
    """What a summary says of the scenario that was run."""
    plan = scenario.faults
    facts = {
        "seed": str(scenario.seed),
        "latency": scenario.world.latency,
        "order": plan.schedule.order,
        "faults": f"{len(plan)} planned" if len(plan) else "none",
    }
    if scenario.profile:
        facts["profile"] = scenario.profile
    if scenario.expected.mutant:
        facts["planted bug"] = scenario.expected.mutant
    if scenario.note:
        facts["note"] = scenario.note
    return facts


def _facts(run: Run) -> dict[str, str]:
    facts = {}
    if run.gradients is not None:
        facts["gradients"] = str(run.gradients)
    left = run.rpc_groups
    facts["left behind"] = f"{left.leaked_rrefs} RRefs, {left.leaked_contexts} contexts"
    return facts


def _of_trace(trace: Trace, more: dict[str, Any]) -> Recording:
    fields = {"digest": trace.digest(), **more}
    return _filled(Recording(trace.records, **fields))


def _filled(found: Recording) -> Recording:
    if not found.digest and found.records:
        trace = Trace()
        trace.records = list(found.records)
        found.digest = trace.digest()
    if not found.ended_s and found.records:
        found.ended_s = found.time_s(found.last)
    return found


def _names(cluster: Any) -> dict[int, str]:
    return {worker.id: worker.name for worker in cluster.workers if worker.id >= 0}


def _distinct(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))
