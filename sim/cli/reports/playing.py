"""A campaign while it is played: a bar on a terminal, and what fails as it is found."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.reports.campaign import Asked, campaign_name, failure_line
from squall.sim.scenarios.failure import Failure
from squall.sim.scenarios.keeping import Keeper
from squall.sim.search.campaign import Campaign, run_campaign
from squall.sim.search.covering import Covering
from squall.sim.search.covers import CoverError, own_file
from squall.sim.search.draw import Settings
from squall.sim.search.evidence import keep
from squall.sim.search.histories import keep_history
from squall.sim.search.judge import Verdict

#: real seconds between two refreshes of the progress bar
_REFRESH_S = 0.25


def play(asked: Asked, settings: Settings) -> Campaign:
    """The campaign that was asked for, with its progress and its failures on standard error; what
    fails is stored, and so are covers. Raises BadInput if the cover of this folder cannot be read.
    """
    covering = Covering(settings, asked.seeds, cover=asked.cover, distil=asked.distil)
    total = asked.seeds.stop - asked.seeds.start if asked.minutes is None else None
    with Display(asked, total, _done) as display:

        def show(verdict: Verdict, failure: Failure | None, campaign: Campaign) -> None:
            covering.add(verdict)
            display.show(failure, campaign)

        try:
            first = covering.first()
        except CoverError as error:
            raise BadInput("cover", str(own_file(settings.profile or "")), str(error)) from None
        campaign = run_campaign(
            asked.seeds,
            settings._replace(stats=settings.stats or covering.collects),
            first=first,
            minutes=asked.minutes,
            jobs=asked.jobs,
            on_verdict=show,
        )
    try:
        said = covering.keep(campaign)
    except OSError as error:
        said = f"the cover cannot be kept: {error}"
    if said:
        sys.stderr.write(f"{said}\n")
    if asked.keep_history:
        try:
            sys.stderr.write(f"seen: {keep_history(campaign, campaign_name(asked))}\n")
        except OSError as error:
            sys.stderr.write(f"what it has seen is not kept: {error.strerror or error}\n")
    if campaign.failures and not asked.distil:
        _keep_evidence(campaign, asked, settings)
    return campaign


def _keep_evidence(campaign: Campaign, asked: Asked, settings: Settings) -> None:
    """Write down how often each failure was found, for whoever mends it."""
    try:
        keep(campaign, asked.seeds, settings, jobs=asked.jobs)
    except OSError as error:
        sys.stderr.write(f"how often they were found is not kept: {error.strerror or error}\n")


class Display:
    """Progress on standard error: a bar on a terminal; failures, as they are found, always.

    ``total`` None: nobody knows. ``done`` says how much of it is done, and words for the line;
    ``counts``: whether that is a number of scenarios, and not a share.
    """

    def __init__(
        self,
        asked: Asked,
        total: float | None,
        done: Callable[[Campaign], tuple[float, str]],
        *,
        counts: bool = True,
    ) -> None:
        # While a scenario runs, sys.stderr is another one.
        self._console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
        self._asked = asked
        self._done = done
        number = MofNCompleteColumn() if total is not None else TextColumn("{task.completed:,}")
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            number if counts else TextColumn("{task.percentage:.0f} %"),
            TextColumn("{task.fields[said]}"),
            TimeElapsedColumn(),
            console=self._console,
            auto_refresh=False,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._progress.add_task(asked.title, total=total, said="")
        self._shown = 0.0
        self._keeper = Keeper(self.warn)

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def warn(self, text: str) -> None:
        """A line above the bar."""
        self._console.print(text, style="yellow", markup=False)

    def show(self, failure: Failure | None, campaign: Campaign) -> None:
        """What has come of one more scenario."""
        if failure is not None:
            kept = self._keeper.keep(failure.scenario, found_by=failure.found_by, text=failure.text)
            failure.file = "" if kept is None else kept.file  # before it is printed: it is there
            self._console.print(failure_line(failure, self._asked), markup=False)
        now = time.monotonic()
        if now - self._shown >= _REFRESH_S:
            self._shown = now
            completed, said = self._done(campaign)
            self._progress.update(self._task, completed=completed, said=said)
            self._progress.refresh()


def _done(campaign: Campaign) -> tuple[float, str]:
    failed = f", {campaign.failed:,} failed" if campaign.failed else ""
    return campaign.scenarios, f"{campaign.scenarios_per_second:,.1f}/s{failed}"
