"""A campaign while it is played: a bar on a terminal, and what fails as it is found."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from squall.sim.cli.reports.campaign import Asked, failure_line
from squall.sim.faults.plan import NO_FAULTS
from squall.sim.scenarios.failure import Failure
from squall.sim.scenarios.keeping import Keeper
from squall.sim.search.campaign import Campaign, run_campaign
from squall.sim.search.draw import Settings
from squall.sim.search.judge import Verdict

#: real seconds between two refreshes of the progress bar
_REFRESH_S = 0.25


def play(asked: Asked, *, stats: bool = False, twice: bool = False) -> Campaign:
    """The campaign that was asked for, with its progress and its failures on standard error; what
    fails is stored."""
    faults = asked.faults
    profile, plan = (None, NO_FAULTS) if faults is None else (faults.profile, faults.plan)
    with _Display(asked) as display:
        return run_campaign(
            asked.seeds,
            Settings(profile, plan, asked.engine, asked.device, stats, twice),
            minutes=asked.minutes,
            jobs=asked.jobs,
            on_verdict=display.show,
        )


class _Display:
    """Progress on standard error: a bar on a terminal; failures, as they are found, always."""

    def __init__(self, asked: Asked) -> None:
        # While a scenario runs, sys.stderr is another one.
        self._console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
        self._asked = asked
        total = asked.seeds.stop - asked.seeds.start if asked.minutes is None else None
        self._progress = Progress(
            TextColumn(asked.title),
            BarColumn(),
            MofNCompleteColumn() if total is not None else TextColumn("{task.completed:,}"),
            TextColumn("{task.fields[speed]}"),
            TimeElapsedColumn(),
            console=self._console,
            auto_refresh=False,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._progress.add_task(asked.title, total=total, speed="")
        self._shown = 0.0
        self._keeper = Keeper(lambda text: self._console.print(text, style="yellow", markup=False))

    def __enter__(self) -> _Display:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def _keep(self, failure: Failure) -> None:
        kept = self._keeper.keep(failure.scenario, found_by=failure.found_by, text=failure.text)
        failure.file = "" if kept is None else kept.file

    def show(self, verdict: Verdict, failure: Failure | None, campaign: Campaign) -> None:
        if failure is not None:
            self._keep(failure)  # first, so that what is printed is there
            self._console.print(failure_line(failure, self._asked), markup=False)
        now = time.monotonic()
        if now - self._shown >= _REFRESH_S:
            self._shown = now
            failed = f", {campaign.failed:,} failed" if campaign.failed else ""
            speed = f"{campaign.scenarios_per_second:,.1f}/s{failed}"
            self._progress.update(self._task, completed=campaign.scenarios, speed=speed)
            self._progress.refresh()
