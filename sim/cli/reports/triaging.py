"""What ``squall campaign`` makes of its failures, and what it says of that."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.progress import SpinnerColumn, TimeElapsedColumn

from squall.sim.campaigns.failure_reports import loaded, triaged
from squall.sim.campaigns.known import Known, known, remember
from squall.sim.campaigns.row import Key
from squall.sim.campaigns.store import CampaignStore
from squall.sim.campaigns.tables import TRIAGE
from squall.sim.campaigns.triage import Task, Triage, Triaged
from squall.sim.cli.bar import Bar
from squall.sim.scenario import Scenario
from squall.sim.scenarios.keeping import Keeper


@dataclass
class Triaging:
    """``files``: of each kind of this campaign, the scenario that is kept; others are added
    meanwhile. ``shrink``: whether they are made small."""

    store: CampaignStore
    files: dict[Key, str]
    console: Console
    shrink: bool
    #: kinds that this campaign has not met, were gone before, and show again
    back: list[Known] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._known, self._keeper = known(), Keeper(self._warn)
        self._triage = Triage(on_done=self._done)
        #: how many of the kinds have been looked at
        self._seen = 0

    def beside(self) -> None:
        """While leases go on: one process at most makes a kind small. Called several times a second.
        Raises CampaignStoreError."""
        self._add_new()
        self._triage.step(1, beside=True)

    def finish(self, jobs: int) -> None:
        """When no lease is left: the rest, and what earlier campaigns have found. Raises
        KeyboardInterrupt, CampaignStoreError."""
        self._add_new()
        for each in self._of_earlier():
            self._triage.add(each)
        bar = Bar(SpinnerColumn(), "triage, {task.fields[left]} left", TimeElapsedColumn(), left="")

        def look(left: int) -> None:
            if bar.is_due:
                bar.say(left=left)

        with bar:
            self._triage.finish(jobs, look)

    def close(self) -> None:
        """End what is under way."""
        self._triage.close()

    def _add_new(self) -> None:
        """The kinds that have come since, but for those of which the store knows all."""
        if self._seen == len(self.files):
            return
        new = list(self.files.items())[self._seen :]
        self._seen = len(self.files)
        before = triaged(self.store)
        for key, file in new:
            scenario = loaded(file)
            if scenario is not None and (key not in before or self._is_to_shrink(before[key])):
                self._triage.add(Task(key, scenario, self.shrink))

    def _of_earlier(self) -> Iterator[Task]:
        """The kinds of earlier campaigns that this one has not met."""
        for key, each in self._known.items():
            scenario = loaded(each.scenario)
            if key not in self.files and scenario is not None:
                yield Task(key, scenario)

    def _is_to_shrink(self, row: dict[str, Any]) -> bool:
        return self.shrink and row["scenario"] is None

    def _done(self, triaged: Triaged) -> None:
        key = property, what, place = triaged.key
        earlier = self._known.get(key)
        if key not in self.files:
            assert earlier is not None, "nothing else is looked for"
            self._done_earlier(earlier, triaged)
            return
        before = () if earlier is None else earlier.versions
        now = Known(
            check=property, what=what, place=place, scenario=self.files[key], versions=before
        )
        now = now.seen(shows=True)
        self._remember(now)
        gone = None if earlier is None else earlier.gone
        small = triaged.scenario
        self.store.note(
            TRIAGE,
            {
                "property": property,
                "what": what,
                "place": place,
                "scenario": None if small is None else self._keep(small, what),
                "events": None if small is None else triaged.events,
                "versions": json.dumps(now.to_json()),
                "known": json.dumps(triaged.known),
                "before": self._row(key).get("before") if gone is None else gone.model_dump_json(),
                "at": time.time(),
            },
        )

    def _done_earlier(self, before: Known, triaged: Triaged) -> None:
        """Of a kind that this campaign has not met."""
        if triaged.shows is None:
            return
        if triaged.shows and before.gone is not None:
            self.back.append(before)
        self._remember(before.seen(shows=triaged.shows))

    def _row(self, key: Key) -> dict[str, Any]:
        return triaged(self.store).get(key, {})

    def _keep(self, scenario: Scenario, what: str) -> str | None:
        kept = self._keeper.keep(scenario, found_by="shrink", text=what)
        return None if kept is None else kept.file

    def _remember(self, each: Known) -> None:
        try:
            remember(each)
        except OSError as error:
            self._warn(f"failures are not remembered: {error}")

    def _warn(self, text: str) -> None:
        self.console.print(text, style="yellow", markup=False)
