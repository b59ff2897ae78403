"""``squall.why``: what decided that a run fails, in words and as a picture."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING

from squall.model.events.names import in_words
from squall.model.events.run import Run as FinishedRun
from squall.sim.library.errors import problems
from squall.sim.library.hypotheses import outside
from squall.sim.library.ported import on_port
from squall.sim.library.run import Timeline, turn
from squall.sim.names import PlotlyFrom
from squall.sim.scenario import Scenario
from squall.sim.scenarios.failure import Failure
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.scenarios.store import StoreError, explain
from squall.sim.scripts.raised_error import rank_error
from squall.sim.search.why.cause import NotFailingError, Problems
from squall.sim.search.why.cause import why as find
from squall.sim.search.why.told import Why
from squall.sim.world.schedule import FIFO

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from squall.sim.pictures.aligned_runs import Side

#: seconds of a processor that the search may take, unless somebody says otherwise
WHY_S = 20.0
#: characters above a run in the picture
_HEADING = 80


class Cause(Why):
    """What decided that a run fails (:class:`~squall.sim.search.why.told.Why`). As the last value of a cell of a
    notebook it shows itself, with the picture of both runs."""

    def picture(self) -> go.Figure:
        """The failing run and one that passes, one above the other, aligned where they part, a plotly figure."""
        from squall.sim.pictures.aligned_runs import beside

        return beside(self._sides(), max(self.event, 0))

    def timeline(self, *, plotly: PlotlyFrom = "inline") -> Timeline:
        """The text and the picture as a page; ``plotly`` as of :meth:`Run.timeline`."""
        from squall.sim.pictures.figure_page import figure_page

        def page(where: PlotlyFrom) -> str:
            named = (place.file for place in (self.raised, *self.places) if place.file)
            title = f"why {Path(next(named, 'this run')).name} fails"
            return figure_page(self.picture(), title, text=str(self), plotly=where)

        return Timeline(page, plotly)

    def _sides(self) -> list[Side]:
        from squall.sim.pictures.aligned_runs import Side
        from squall.sim.pictures.recording import recording

        failing = f"this run fails: {self.problems[0]}" if self.problems else "this run"
        names = (shorten(failing, _HEADING, placeholder=" ..."), "a run that passes")
        found = []
        for name, (run, calls, marks) in zip(names, self.shown, strict=False):
            told = {call.started: call.said for call in calls if call.may_be_users}
            places = {call.started: str(call.place) for call in calls}
            found.append(Side(name, recording(run, functions=told, places=places), marks))
        return found

    def _repr_html_(self) -> str:
        return self.timeline()._repr_html_()


def keep_cause(failure: Failure, why: Cause) -> None:
    """Write it down with a failure that is kept, if it is known and the store can be written to: a timeline tells it."""
    if why.verdict != "unknown":
        with suppress(StoreError):
            explain(failure, why.text, why.marks_of(failure.expected.digest or ""))


def _problems(scenario: Scenario, *, strict: bool) -> Problems:
    """What says what is wrong with a run of the scenario."""
    script = scenario.script
    if script is None:
        return lambda run: [in_words(str(each), run.names) for each in run.violations]

    def found(run: FinishedRun) -> list[str]:
        errors = [rank_error(error, script.path) for error in run.errors]
        return problems(run, errors, strict=strict)

    return found


def cause_of(
    scenario: Scenario,
    *,
    seconds: float = WHY_S,
    strict: bool = False,
    on_run: Callable[[int], object] = lambda _: None,
) -> Cause:
    """What decided that the scenario fails; where only what faults excuse is wrong, what decided that.
    Raises NotFailingError if nothing is.

    On the engine port, where a script of another engine fails, too: there runs take little time, and lines
    and values are known.
    """
    try:
        return _cause_of(scenario, seconds=seconds, strict=strict, on_run=on_run)
    except NotFailingError:
        if strict:
            raise
        return _cause_of(scenario, seconds=seconds, strict=True, on_run=on_run)


def _cause_of(
    scenario: Scenario, *, seconds: float, strict: bool, on_run: Callable[[int], object]
) -> Cause:
    with turn, outside(), campaign_settings(scenario.world.device):
        told = _problems(scenario, strict=strict)
        if scenario.engine != "port" and scenario.script is not None:
            ported = on_port(scenario, told, seconds=seconds / 2)
            if ported is not None:
                found = find(ported.scenario, told, seconds=seconds, on_run=on_run)
                same = replace(ported.scenario.faults, schedule=FIFO) == replace(
                    scenario.faults, schedule=FIFO
                )
                under = "" if same else " under other faults"
                if ported.same:
                    found.said.append(f"(Told of the engine port, where it fails{under}, too.)")
                else:
                    otherwise = f"On the engine port it fails otherwise{under}: {found.problems[0]}"
                    found.said.insert(0, f"{otherwise}. Of that is told here:")
                    found.problems = ported.problems
                return Cause(**vars(found))
        return Cause(**vars(find(scenario, told, seconds=seconds, on_run=on_run)))
