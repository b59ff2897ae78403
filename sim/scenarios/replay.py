"""Runs a saved scenario again, and tells what came of it.

played = replay(load_scenario(path))
assert played.digest == saved.expected.digest
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from squall.model.checks.registry import check
from squall.model.events.run import Record, Run, Violation
from squall.model.events.waiting import explain, explain_timeout, timeouts, wait_graph
from squall.sim.faults.plan import NO_FAULTS, Plan, Schedule
from squall.sim.scenarios.file import Expected, NetworkSpec, SavedScenario, ScenarioError, Script
from squall.sim.search.judge import Given, Scenario, campaign_settings, play, scenario_of
from squall.sim.search.mutants.planted import MUTANTS
from squall.sim.world.real_time import TooLongError, time_limit
from squall.sim.world.trace import digest_of
from squall.sim.world.watch import Comparer, Diverged, Divergence, Recorder, Watcher, watching

if TYPE_CHECKING:
    import networkx as nx

    from squall.sim.scripts.report import Report
    from squall.sim.scripts.run import ScriptScenario

#: outcomes of a run of a program; a script has those of its report
OK, FAILED, STOPPED = "ok", "failed", "stopped"
#: calls that timed out of which is told why
_TIMEOUTS_TOLD = 3


@dataclass
class Played:
    """What came of a run. ``run`` is what the checks saw, ``report`` that of a script."""

    saved: SavedScenario
    outcome: str
    digest: str
    records: Sequence[Record]
    violations: list[Violation] = field(default_factory=list)
    virtual_time_s: float = 0.0
    run: Run | None = None
    report: Report | None = None
    #: what the script printed
    printed: str = ""

    @property
    def expected_digest(self) -> str | None:
        return self.saved.expected.digest

    @property
    def digest_matches(self) -> bool | None:
        """Whether it is the run that was saved; None if its digest is not known."""
        expected = self.expected_digest
        return None if expected is None else expected == self.digest

    @property
    def ok(self) -> bool:
        return self.outcome in (OK, STOPPED)

    def wait_graph(self) -> nx.DiGraph[Any] | None:
        """Who waited for what when nothing could happen any more; None if nobody did."""
        waiting = self.run.waiting if self.run is not None else ()
        waiting = self.report.waiting if self.report is not None else waiting
        return wait_graph(self.records, waiting) if waiting else None

    def explanation(self) -> list[str]:
        """Why it hangs, or why calls timed out that nothing should have kept, in lines."""
        graph = self.wait_graph()
        if graph is not None:
            return explain(graph)
        if not self.violations or self.saved.faults:
            return []
        first = list(islice(timeouts(self.records), _TIMEOUTS_TOLD))
        lines = [line for number in first for line in explain_timeout(self.records, number)]
        return list(dict.fromkeys(lines))

    def expectation(self) -> Expected:
        """What a file should say about this run."""
        first = self.violations[0] if self.violations else None
        return Expected(
            digest=self.digest,
            outcome=self.outcome,
            property=first.property if first is not None else None,
            what=first.what if first is not None else None,
            mutant=self.saved.expected.mutant,
        )


# -- from and to what runs ------------------------------------------------------------------------


def seed_scenario(seed: int, profile: str | None = None, plan: Plan = NO_FAULTS) -> Scenario:
    """The scenario of a seed, with the faults that ``profile`` draws for it, or with ``plan``."""
    return scenario_of(seed, Given(profile=profile or "", plan=plan))


def saved_scenario(
    scenario: Scenario, *, device: str = "cpu", engine: str = "port"
) -> SavedScenario:
    """The scenario of a campaign as a file holds it."""
    plan = scenario.plan
    if scenario.order != "fifo" and plan.schedule.order == "fifo":
        plan = replace(plan, schedule=replace(plan.schedule, order=scenario.order))
    return SavedScenario(
        seed=scenario.seed,
        program=scenario.program,
        network=NetworkSpec(
            latency=scenario.latency, bandwidth_bytes_per_s=scenario.bandwidth_bytes_per_s
        ),
        faults=plan,
        shut_down_early=scenario.shut_down_early,
        skip_handshakes=scenario.skip_handshakes,
        rpc_timeout_s=scenario.rpc_timeout_s,
        device=device,
        engine=engine,
        profile=scenario.profile or None,
    )


def campaign_scenario(saved: SavedScenario) -> Scenario:
    """The same the other way round. Raises ScenarioError for a script."""
    if saved.program is None:
        raise ScenarioError("scenario: holds a script, and this is for programs")
    schedule, plan = saved.faults.schedule, saved.faults
    order = schedule.order
    if order == "random":  # without anything else about it: what the runtime does by itself
        plan = replace(plan, schedule=replace(schedule, order="fifo"))
    return Scenario(
        saved.seed,
        saved.program,
        latency=saved.network.latency,
        order="random" if order == "random" else "fifo",
        shut_down_early=saved.shut_down_early,
        skip_handshakes=saved.skip_handshakes,
        plan=plan,
        profile=saved.profile or "",
        rpc_timeout_s=saved.rpc_timeout_s,
        bandwidth_bytes_per_s=saved.network.bandwidth_bytes_per_s,
    )


def saved_script(scenario: ScriptScenario, *, engine: str = "port") -> SavedScenario:
    """A script and its world as a file holds them; the script's text as it is now.

    Its path is absolute: tracebacks that cross the network show it. Raises OSError.
    """
    return SavedScenario(
        seed=scenario.seed,
        script=Script(
            path=str(scenario.script.resolve()),
            text=scenario.script.read_text(encoding="utf-8")
            if scenario.text is None
            else scenario.text,
            args=scenario.args,
            workers=scenario.workers,
            check=scenario.check,
        ),
        network=NetworkSpec(
            latency=scenario.latency, bandwidth_bytes_per_s=scenario.bandwidth_bytes_per_s
        ),
        faults=scenario.faults
        if scenario.faults.schedule != Schedule()
        else replace(scenario.faults, schedule=Schedule(order=scenario.order)),
        device=scenario.device,
        engine=engine,
    )


# -- running --------------------------------------------------------------------------------------


@contextlib.contextmanager
def planted(name: str | None) -> Iterator[None]:
    """Plant the mutant of that name, if there is one. Raises ScenarioError if it is not known."""
    if name is None:
        yield
        return
    mutant = MUTANTS.get(name)
    if mutant is None:
        raise ScenarioError(f"scenario.expected.mutant: there is no mutant {name!r}")
    with mutant.apply():
        yield


def replay(
    saved: SavedScenario,
    *,
    watcher: Watcher | None = None,
    seconds: float | None = None,
    until: Until | None = None,
) -> Played:
    """Run a scenario to its end, or to where ``until`` stops it.

    ``seconds``: real time that it may take, after which the run counts as one that does not end
    (for the main thread). Raises ScenarioError for what cannot be run.
    """
    limit = (
        contextlib.nullcontext()
        if seconds is None
        else time_limit(seconds, elsewhere=saved.engine == "torch")
    )
    watcher = until if until is not None else watcher
    watched = contextlib.nullcontext() if watcher is None else watching(watcher)
    with planted(saved.expected.mutant), campaign_settings(saved.device), watched:
        try:
            with limit:
                return _play_script(saved) if saved.script is not None else _play(saved)
        except Stopped as stop:
            records = stop.records
            return Played(
                saved, STOPPED, digest_of(records), records, virtual_time_s=records[-1][0]
            )
        except TooLongError:
            seen = f"it was still running after {seconds:g} s of real time"
            violation = Violation("progress", "the run broke off", "an end", seen)
            return Played(saved, FAILED, "", [], [violation])


def _play(saved: SavedScenario) -> Played:
    if saved.engine == "torch":
        from squall.sim.stock.play import play_native

        run, violations = play_native(campaign_scenario(saved))
    else:
        # What was not deterministic shows only in a second run.
        times = 2 if saved.expected.property == "determinism" else 1
        run = play(campaign_scenario(saved), times=times)
        violations = check(run)
    return Played(
        saved,
        FAILED if violations else OK,
        digest_of(run.records),
        run.records,
        violations,
        run.ended_s,
        run,
    )


def _play_script(saved: SavedScenario) -> Played:
    from squall.sim.scripts.run import ScriptScenario, run

    run_script: Callable[[ScriptScenario], Report] = run
    if saved.engine == "torch":
        from squall.sim.stock.script import run_script

    assert saved.script is not None
    out = io.StringIO()
    report = run_script(
        ScriptScenario(
            script=Path(saved.script.path),
            text=saved.script.text,
            args=saved.script.args,
            workers=saved.script.workers,
            seed=saved.seed,
            latency=saved.network.latency,
            bandwidth_bytes_per_s=saved.network.bandwidth_bytes_per_s,
            faults=saved.faults,
            device=saved.device,
            check=saved.script.check,
            stdout=out,
            stderr=out,
        )
    )
    assert report.trace is not None
    return Played(
        saved,
        report.outcome,
        report.digest,
        report.trace.records,
        list(report_violations(report)),
        report.virtual_time_s,
        report=report,
        printed=out.getvalue(),
    )


def report_violations(report: Report) -> Iterator[Violation]:
    """What a script's run violates, in the form in which programs' runs tell it."""
    for error in report.errors:
        yield Violation(
            "script", f"a process raised {error.type}", "none", f"{error.worker}: {error.message}"
        )
    if report.outcome == "error" and not report.errors:
        yield Violation("script", "a process failed", "exit code 0", str(report.exit_codes))
    if report.waits:
        yield Violation("progress", "the script hangs", "an end", "; ".join(report.waits))
    for mismatch in report.gradients.mismatches if report.gradients is not None else ():
        yield Violation("gradients", "a gradient", "that of one process", mismatch)
    if report.leaked_rrefs:
        yield Violation("rrefs", "an owner was left", "0", str(report.leaked_rrefs))
    if report.leaked_contexts:
        yield Violation("contexts", "a context was left", "0", str(report.leaked_contexts))


# -- stopping on the way --------------------------------------------------------------------------


class Stopped(BaseException):
    """A run was stopped where somebody wanted to. No code under test handles it."""

    def __init__(self, records: list[Record]) -> None:
        super().__init__(f"stopped after event {len(records) - 1}")
        self.records = records


class Until(Watcher):
    """Stops a run at an event: of that number, or the first one from that virtual time on, or the
    ``nth`` (from 1) of an event type, or the ``nth`` sending of a message type.

    ``waiting`` then says, a line each, who waits for what at that moment.
    """

    def __init__(
        self,
        *,
        number: int | None = None,
        time_s: float | None = None,
        name: str | None = None,
        nth: int = 1,
    ) -> None:
        super().__init__()
        self._number, self._time_s, self._name, self._left = number, time_s, name, nth
        self.records: list[Record] = []
        self.waiting: list[str] = []
        self.stopped = False

    def event(self, record: tuple[Any, ...]) -> None:
        if self.stopped:
            return
        self.records.append(record)
        if not self._is_here(record):
            return
        from squall.sim.world.stuck import explain

        self.stopped = True
        assert self.runtime is not None
        tasks = [task for task in self.runtime.tasks if task.waiting_on is not None]
        self.waiting = explain(self.runtime, [t for t in tasks if t.glet is not None])
        self.stop(Stopped(self.records))

    def _is_here(self, record: tuple[Any, ...]) -> bool:
        if self._number is not None:
            return len(self.records) > self._number
        if self._time_s is not None:
            return bool(record[0] >= self._time_s)
        type, values = record[3], record[4]
        sent = type.name == "message_sent" and values[type.fields.index("type")] == self._name
        if type.name == self._name or sent:
            self._left -= 1
        return self._left <= 0


# -- two runs -------------------------------------------------------------------------------------


def first_divergence(saved: SavedScenario) -> Divergence | None:
    """Run a scenario twice, comparing every draw and event as it goes; where they part first."""
    recorder = Recorder()
    replay(saved, watcher=recorder)
    comparer = Comparer(recorder.steps)
    try:
        replay(saved, watcher=comparer)
        comparer.finish()
    except Diverged as diverged:
        return diverged.divergence
    return None


def second_run(scenario: ScriptScenario, first: Recorder) -> Divergence | None:
    """Run a script again; where it parts from the run that ``first`` has recorded.

    What it prints is not shown. Raises OSError if the script is gone.
    """
    comparer = Comparer(first.steps)
    try:
        replay(saved_script(scenario), watcher=comparer)
        comparer.finish()
    except Diverged as diverged:
        return diverged.divergence
    return None


class FirstDifference(NamedTuple):
    """Where two runs part: the number of the first event that differs; None where one has ended."""

    number: int
    one: Record | None
    other: Record | None


def first_difference(one: Sequence[Record], other: Sequence[Record]) -> FirstDifference | None:
    """The first event that two runs do not share; None if they are the same to the end."""
    for number, (mine, yours) in enumerate(zip_longest(one, other)):
        if mine != yours:
            return FirstDifference(number, mine, yours)
    return None
