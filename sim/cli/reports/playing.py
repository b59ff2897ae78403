"""A campaign while it is played: a bar on a terminal, and what fails as it is found."""

from __future__ import annotations

import sys
from collections.abc import Callable

from rich.progress import BarColumn, MofNCompleteColumn, TimeElapsedColumn

from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.bar import Bar
from squall.sim.cli.reports.campaign import Asked, campaign_name, failure_line
from squall.sim.scenarios.failure import Failure
from squall.sim.scenarios.keeping import Keeper
from squall.sim.search.campaign import Campaign, run_campaign
from squall.sim.search.covering import Covering
from squall.sim.search.covers import CoverError, own_file
from squall.sim.search.draw import Settings
from squall.sim.search.failure_rates import keep
from squall.sim.search.histories import keep_history
from squall.sim.search.judge import Verdict


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


class Display(Bar):
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
        number = MofNCompleteColumn() if total is not None else "{task.completed:,}"
        super().__init__(
            asked.title,
            BarColumn(),
            number if counts else "{task.percentage:.0f} %",
            "{task.fields[said]}",
            TimeElapsedColumn(),
            total=total,
            said="",
        )
        self._asked, self._done = asked, done
        self._keeper = Keeper(self.warn)

    def show(self, failure: Failure | None, campaign: Campaign) -> None:
        """What has come of one more scenario."""
        if failure is not None:
            kept = self._keeper.keep(failure.scenario, found_by=failure.found_by, text=failure.text)
            failure.file = "" if kept is None else kept.file  # before it is printed: it is there
            self.console.print(failure_line(failure, self._asked), markup=False)
        if self.is_due:
            completed, said = self._done(campaign)
            self.say(completed=completed, said=said)


def _done(campaign: Campaign) -> tuple[float, str]:
    failed = f", {campaign.failed:,} failed" if campaign.failed else ""
    return campaign.scenarios, f"{campaign.scenarios_per_second:,.1f}/s{failed}"
