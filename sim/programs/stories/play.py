"""Runs the stories of programs.

The modules beside this one declare them; a new story is a function in one of them, or in a new
one. With this module all of them are imported, and so registered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from squall.model.discovery import modules_in
from squall.model.one_process.outcome import Outcome
from squall.model.program.acts.act import Act
from squall.model.program.acts.expected import MARGIN_S, told_alone
from squall.model.program.cargo import Cargo
from squall.model.program.chain import Chain
from squall.model.program.program import Beside, Step, beside
from squall.model.program.stories import (
    ACTS,
    RAISED,
    Perform,
    Story,
    as_line,
    numbers_of,
    perform_of,
)
from squall.real.future import Future
from squall.real.rpc.wire_names import label_module
from squall.real.worker import current_worker
from squall.sim.programs.acts import perform_acts
from squall.sim.programs.host import here
from squall.sim.programs.stories.calls import sleep
from squall.sim.programs.stories.cargo import carry
from squall.sim.programs.stories.chain import follow
from squall.sim.programs.stories.updates import update_together

label_module("squall.model.program.stories", "stories")

#: trainer, step, field of the step, number in it
Place = tuple[int, int, str, int]

# Each registers the stories that it declares.
modules_in("squall.sim.programs.stories")


class StoryRuns:
    """What goes on beside one step of a trainer, each in a task of its own."""

    def __init__(self, outcome: Outcome, trainer: int, number: int, step: Step) -> None:
        self._outcome = outcome
        self._where = (trainer, number)
        self._waiting = sorted(beside(step), key=lambda each: each[2].before)
        self._ends: list[Future[None]] = []

    def begin(self, index: int) -> None:
        """Begin those that come before operation ``index`` at the latest."""
        while self._waiting and self._waiting[0][2].before <= index:
            field, at, thing = self._waiting.pop(0)
            what = f"story {thing.kind!r}" if isinstance(thing, Story) else f"{field}[{at}]"
            worker = current_worker()
            end: Future[None] = Future(runtime=worker.runtime, what=what)
            self._ends.append(end)
            place = (*self._where, field, at)
            worker.runtime.spawn(
                self._run, place, thing, end, name="story", worker=worker, daemon=False
            )

    def end(self) -> None:
        """Begin what has not begun, and wait for all of them."""
        if self._waiting:
            self.begin(self._waiting[-1][2].before)
        for end in self._ends:
            end.wait()

    def _run(self, place: Place, thing: Beside, end: Future[None]) -> None:
        told = perform(thing)
        if isinstance(told, str):
            self._outcome.beside[place] = told
        else:
            here().afterwards[place] = told
        end.mark_completed(None)


def performer(thing: Beside) -> Perform:
    """What performs something that goes on beside a step, given the worker that it is about."""
    if isinstance(thing, Story):
        if thing.kind == ACTS:
            return lambda _: as_line(_acts_to_their_end(thing.acts))
        numbers = numbers_of(thing)
        return partial(perform_of(thing.kind), **numbers) if numbers else perform_of(thing.kind)
    if isinstance(thing, Cargo):
        return partial(carry, thing.plain())
    return partial(follow if isinstance(thing, Chain) else update_together, thing.plain())


def perform(thing: Beside) -> str | Callable[[], str]:
    """What came of it, in a line (also if it raised), or a function that will tell."""
    try:
        return performer(thing)(thing.worker)
    except Exception as error:
        return f"{RAISED} {type(error).__name__}: {error}"


def _acts_to_their_end(acts: Sequence[Act]) -> list[str]:
    """What acts tell. Where a shutdown may follow at once, nobody goes on with them when they have
    been told: a shutdown takes references away from whoever still uses them."""
    began_s = current_worker().runtime.now()
    lines = perform_acts(acts)
    host = here()
    if host.program.endings or host.shuts_down_early:
        rest_s = began_s + told_alone(acts, host.worker).seconds - current_worker().runtime.now()
        if rest_s > -MARGIN_S:
            sleep(rest_s + MARGIN_S)
    return lines
