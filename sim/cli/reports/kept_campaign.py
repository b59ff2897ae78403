"""What ``squall campaign`` says: a bar on a terminal, failures as they are found, and a report."""

from __future__ import annotations

import json
import shlex
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from squall.model.events.run import Violation
from squall.sim.campaigns.driver import Look
from squall.sim.campaigns.failure_reports import told_lines, told_of
from squall.sim.campaigns.known import Known
from squall.sim.campaigns.lease import Judged
from squall.sim.campaigns.parts import Part
from squall.sim.campaigns.parts.diff import DIFFERENCE
from squall.sim.campaigns.plan import Plan
from squall.sim.campaigns.row import Key, Row
from squall.sim.campaigns.store import CampaignStore, FailureKind
from squall.sim.cli.bar import Bar
from squall.sim.cli.exits import INTERRUPTED, exit_code
from squall.sim.cli.panels import WIDTH, print_panel, summary_table, unchecked_row, verdict
from squall.sim.scenarios.failure import Failure, with_expectation
from squall.sim.scenarios.keeping import Keeper


@dataclass
class Telling:
    """Progress on standard error, and each kind of failure once, kept before it is printed."""

    plan: Plan
    store: CampaignStore
    jobs: int
    #: where leases are judged; None: nowhere
    on: str | None
    #: seeds that this process has judged, and how long it took
    here: int = 0
    seconds: float = 0.0
    #: kinds of earlier campaigns that were gone, and show again
    back: list[Known] = field(default_factory=list)
    #: what was kept of each kind
    files: dict[Key, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._parts = {part.name: part for part in self.plan.parts}
        self._judged, self._failed, _ = self.store.counts()
        total = self.plan.scenarios
        self._bar = Bar(
            "{task.description}",
            BarColumn(),
            MofNCompleteColumn(),
            "{task.fields[said]}",
            TimeRemainingColumn(compact=True),
            "left",
            total=total,
            completed=self._judged,
            description="campaign",
            said="",
        )
        self.console = self._bar.console
        self._keeper = Keeper(self._bar.warn)
        self._bars = self._bars_of_parts() if len(self.plan.parts) > 1 else {}

    def _bars_of_parts(self) -> dict[str, TaskID]:
        judged = self.store.judged()
        return {
            part.name: self._bar.add_task(
                f"  {part.name}", total=total, completed=judged.get(part.name, 0), said=part.unit
            )
            for part, total in self.plan.counts().items()
        }

    def __enter__(self) -> Telling:
        self._started = time.monotonic()
        for kind in self.store.kinds():  # of a campaign that goes on
            self.tell(kind)
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.monotonic() - self._started
        self._bar.stop()

    def lease(self, judged: Judged) -> None:
        """What came of a lease that is on disk."""
        name = judged.lease.part.name
        self.here += len(judged.lease.seeds)
        if name in self._bars:
            self._bar.advance(self._bars[name], len(judged.lease.seeds))
        for row in judged.failures:
            self._failed += 1
            self.tell(
                FailureKind(row.property, row.what, name, row.seed, row.digest, row.text, row.place)
            )

    def loss(self, line: str) -> None:
        """A worker is gone."""
        self._bar.warn(line)

    def look(self, look: Look) -> None:
        """Show how far it is."""
        if not self._bar.is_due:
            return
        self.jobs = max(self.jobs, look.jobs)
        here = self.here + look.under_way
        failed = f", {self._failed:,} failed" if self._failed else ""
        workers = ""
        if self.on == "ray":
            workers = f", {look.workers} worker{'' if look.workers == 1 else 's'}"
        per_second = here / max(time.monotonic() - self._started, 1e-9)
        said = f"{per_second:,.1f}/s, {look.jobs} at a time{workers}{failed}"
        self._bar.say(completed=self._judged + here, said=said)

    def tell(self, kind: FailureKind) -> None:
        """Keep the first scenario of a kind, and print it."""
        key = kind.key
        if key in self.files:
            return
        failure = self._failure(kind)
        part = self._parts[kind.part]
        kept = None
        if failure is not None:
            kept = self._keeper.keep(failure.scenario, found_by="campaign", text=failure.text)
        file = self.files[key] = "" if kept is None else kept.file
        lines = [f"{part.name}, {part.name_of(kind.seed)}: {kind.text}"]
        again = self.again(kind)
        if again is not None:
            lines.append(f"  again: {again}")
        if file:
            lines += [f"  look: {shlex.join(['squall', 'timeline', file])}", f"  kept: {file}"]
        self.console.print("\n".join(lines), markup=False)

    def again(self, kind: FailureKind) -> str | None:
        """A command line that shows it again; None if there is none."""
        again = self._parts[kind.part].again(_row(kind))
        file = self.files.get(kind.key)
        return shlex.join(["squall", "replay", file]) if again is None and file else again

    def name_of(self, kind: FailureKind) -> str:
        """The number of it in words."""
        return self._parts[kind.part].name_of(kind.seed)

    def _failure(self, kind: FailureKind) -> Failure | None:
        try:
            scenario = self._parts[kind.part].scenario(_row(kind))
        except Exception:
            return None  # which is what the scenario has failed with
        if scenario is None:
            return None
        if kind.property == DIFFERENCE:  # no replay of one engine shows it
            return Failure(scenario=scenario, text=kind.text, found_by="campaign")
        first = Violation(kind.property, kind.what, "", "")
        digest = kind.digest or scenario.expected.digest
        scenario = with_expectation(scenario, first, outcome="failed", digest=digest)
        return Failure(scenario=scenario, text=kind.text, found_by="campaign")


class Report:
    """What a campaign has come to, as its store has it."""

    def __init__(self, telling: Telling, *, interrupted: bool = False) -> None:
        self._telling, self._interrupted = telling, interrupted
        self._plan, self._file = telling.plan, telling.store.file
        self.judged, self.failed, self._events = telling.store.counts()
        self._kinds = telling.store.kinds()
        self._by_part = telling.store.judged()
        self._triaged = told_of(telling.store, self._kinds)
        self._verdicts = telling.store.verdicts()

    @property
    def missing(self) -> str | None:
        """What nobody has judged; None if all is done."""
        left = self._plan.scenarios - self.judged
        return (
            f"{left:,} of {self._plan.scenarios:,} scenarios are not judged yet" if left else None
        )

    @property
    def good(self) -> bool:
        """Whether nothing failed, and nothing that was gone is back."""
        return not self.failed and not self._telling.back

    @property
    def _speed(self) -> float:
        return self._telling.here / self._telling.seconds if self._telling.seconds else 0.0

    def to_json(self) -> str:
        """The object of ``squall campaign --json``; its keys are in docs/json.md."""
        good = "ok" if self.missing is None else "incomplete"
        outcome = good if self.good else "failed"
        said = self._telling.store.said
        told: dict[str, Any] = {
            "outcome": "interrupted" if self._interrupted else outcome,
            "scenarios": self._plan.scenarios,
            "judged": self.judged,
            "failed": self.failed,
            "failures": [self._failure_json(kind) for kind in self._kinds],
            "regressions": [_regression_json(each) for each in self._telling.back],
            "verdicts": self._verdicts,
            "parts": [self._part_json(part) for part in self._plan.parts],
            "index": self._plan.index,
            "of": self._plan.of,
            "on": self._telling.on,
            "jobs": self._telling.jobs,
            "events": self._events,
            "judged_now": self._telling.here,
            "wall_time_s": self._telling.seconds,
            "scenarios_per_second": self._speed,
            "store": str(self._file),
            **{name: said[name] for name in ("squall", "torch", "code")},
        }
        return json.dumps(told, allow_nan=False)

    def print(self, console: Console) -> None:
        """Each kind of failure with how often it was found, and a summary."""
        console = Console(file=console.file, width=min(WIDTH, console.width), highlight=False)
        for kind in self._kinds:
            name = self._telling.name_of(kind)
            line = f"{kind.part}, {name}: {kind.text}"
            console.print(Text(line, style="red"), soft_wrap=True)
            again = self._telling.again(kind)
            if again is not None:
                console.print(Text(f"  again: {again}"), soft_wrap=True)
            if kind.place:
                console.print(Text(f"  place: {kind.place}"), soft_wrap=True)
            console.print(Text(f"  first to break in {kind.scenarios:,} scenarios"), soft_wrap=True)
            for line in told_lines(self._triaged[kind.key]):
                console.print(Text(f"  {line}"), soft_wrap=True)
        for each in self._telling.back:
            place = f" ({each.place})" if each.place else ""
            line = f"regression: {each.check}: {each.what}{place}: it was gone, and shows again"
            console.print(Text(line, style="red"), soft_wrap=True)
            console.print(Text(f"  again: squall replay {each.scenario}"), soft_wrap=True)
        print_panel(console, self._summary(), "squall campaign", good=self.good)

    def _summary(self) -> Table:
        table = summary_table()
        good = "every property holds" if self.judged else "nothing was judged"
        holds = f"{self.judged:,} scenarios, {good}"
        failed = f"{self.failed:,} of {self.judged:,} scenarios failed"
        said = failed if self.failed else holds
        if self._telling.back:
            said += f", {len(self._telling.back)} known failures are back"
        table.add_row("outcome", verdict(said, good=self.good))
        unchecked_row(table, self.missing)
        if self._interrupted:
            table.add_row("", Text("interrupted; --resume goes on", style="yellow"))
        for at, part in enumerate(self._plan.parts):
            table.add_row("" if at else "parts", str(part))
        if self._plan.of > 1:
            table.add_row("share", f"index {self._plan.index} of {self._plan.of}")
        if self._telling.here:
            speed = f"{self._speed:,.1f} scenarios a second, "
            now = f"{self._telling.here:,} judged now in {self._telling.seconds:.1f} s"
            table.add_row("speed", f"{speed}{now}")
        table.add_row("verdicts", self._verdicts)
        table.add_row("kept in", str(self._file))
        return table

    def _failure_json(self, kind: FailureKind) -> dict[str, Any]:
        return {
            **kind._asdict(),
            "replay": self._telling.again(kind),
            "file": self._telling.files.get(kind.key) or None,
            **self._triaged[kind.key],
        }

    def _part_json(self, part: Part) -> dict[str, Any]:
        return {**part.said(), "judged": self._by_part.get(part.name, 0)}


def _regression_json(each: Known) -> dict[str, Any]:
    gone = None if each.gone is None else each.gone.model_dump()
    return {
        "property": each.check,
        "what": each.what,
        "place": each.place,
        "file": each.scenario,
        "gone": gone,
    }


def _row(kind: FailureKind) -> Row:
    return Row(kind.seed, kind.property, kind.what, kind.digest, text=kind.text, place=kind.place)


def report(telling: Telling, *, json: bool, interrupted: bool) -> int:
    """Say what came of it, and close the store. Returns the exit code."""
    found = Report(telling, interrupted=interrupted)
    if json:
        print(found.to_json())
    else:
        found.print(Console())
    telling.store.close()
    if interrupted:
        return INTERRUPTED
    if found.missing is not None:
        sys.stderr.write(f"squall: {found.missing}\n")
    return exit_code(good=found.good, unchecked=found.missing)
