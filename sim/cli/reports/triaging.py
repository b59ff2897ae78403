"""What ``squall campaign`` makes of its failures when no lease is left, and what it says of that."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from squall.sim.campaigns.known import Known, known, remember
from squall.sim.campaigns.store import CampaignStore
from squall.sim.campaigns.tables import TRIAGE
from squall.sim.campaigns.told import loaded, triaged
from squall.sim.campaigns.triage import SHRINK_S, Key, Task, Triaged, triage
from squall.sim.scenario import Scenario
from squall.sim.scenarios.keeping import Keeper

#: real seconds between two refreshes of the display
_REFRESH_S = 0.25


@dataclass
class Triaging:
    """``files``: of each kind of this campaign, the scenario that is kept. ``shrink``: whether
    they are made small."""

    store: CampaignStore
    files: dict[Key, str]
    console: Console
    jobs: int
    shrink: bool
    seconds: float = SHRINK_S
    #: kinds that this campaign has not met, were gone before, and show again
    back: list[Known] = field(default_factory=list)

    def run(self) -> None:
        """Raises KeyboardInterrupt, CampaignStoreError."""
        self._known, self._keeper = known(), Keeper(self._warn)
        tasks = list(self._tasks())
        progress = Progress(
            SpinnerColumn(),
            TextColumn("triage, {task.fields[left]} left"),
            TimeElapsedColumn(),
            console=self.console,
            auto_refresh=False,
            transient=True,
            disable=not self.console.is_terminal,
        )
        task = progress.add_task("triage", total=None, left=len(tasks))
        shown = 0.0

        def look(left: int) -> None:
            nonlocal shown
            if time.monotonic() - shown > _REFRESH_S:
                shown = time.monotonic()
                progress.update(task, left=left)
                progress.refresh()

        with progress:
            triage(tasks, jobs=self.jobs, seconds=self.seconds, on_done=self._done, on_look=look)

    def _tasks(self) -> Iterator[Task]:
        """The kinds of this campaign first; then those of earlier ones."""
        before = triaged(self.store)
        for key, file in self.files.items():
            scenario = loaded(file)
            if scenario is not None and (key not in before or self._is_to_shrink(before[key])):
                yield Task(key, scenario, self.shrink)
        for key, each in self._known.items():
            scenario = loaded(each.scenario)
            if key not in self.files and scenario is not None:
                yield Task(key, scenario)

    def _is_to_shrink(self, row: dict[str, Any]) -> bool:
        return self.shrink and row["scenario"] is None

    def _done(self, triaged: Triaged) -> None:
        if triaged.key not in self.files:
            self._done_before(self._known[triaged.key], triaged)
            return
        property, what = triaged.key
        file = self.files[triaged.key]
        before = self._known.get(triaged.key) or Known(check=property, what=what, scenario=file)
        now = before.model_copy(update={"scenario": file}).seen(shows=True)
        self._remember(now)
        gone = before.gone
        earlier = self._row(triaged.key).get("before")
        self.store.note(
            TRIAGE,
            {
                "property": property,
                "what": what,
                "place": triaged.place,
                "scenario": None
                if triaged.scenario is None
                else self._keep(triaged.scenario, what),
                "events": None if triaged.scenario is None else triaged.events,
                "versions": json.dumps(now.to_json()),
                "before": earlier if gone is None else gone.model_dump_json(),
                "at": time.time(),
            },
        )

    def _done_before(self, before: Known, triaged: Triaged) -> None:
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
