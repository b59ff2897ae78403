"""Runs the stories of programs.

The modules beside this one declare them; a new story is a function in one of them, or in a new
one. With this module all of them are imported, and so registered.
"""

from __future__ import annotations

from collections.abc import Callable

from squall.model.discovery import modules_in
from squall.model.one_process.outcome import Outcome
from squall.model.program.program import Step
from squall.model.program.stories import Story, perform_of
from squall.real.future import Future
from squall.real.rpc.wire_names import label_module
from squall.real.worker import current_worker
from squall.sim.programs.host import here

label_module("squall.model.program.stories", "stories")

# Each registers the stories that it declares.
modules_in("squall.sim.programs.stories")


class StoryRuns:
    """The stories of one step of a trainer, each in a task of its own."""

    def __init__(self, outcome: Outcome, trainer: int, number: int, step: Step) -> None:
        self._outcome = outcome
        self._where = (trainer, number)
        self._waiting = sorted(enumerate(step.stories), key=lambda each: each[1].before)
        self._ends: list[Future[None]] = []

    def begin(self, index: int) -> None:
        """Begin those that come before operation ``index`` at the latest."""
        while self._waiting and self._waiting[0][1].before <= index:
            number, story = self._waiting.pop(0)
            worker = current_worker()
            end: Future[None] = Future(runtime=worker.runtime, what=f"story {story.kind!r}")
            self._ends.append(end)
            worker.runtime.spawn(
                self._run, number, story, end, name="story", worker=worker, daemon=False
            )

    def end(self) -> None:
        """Begin what has not begun, and wait for all of them."""
        if self._waiting:
            self.begin(self._waiting[-1][1].before)
        for end in self._ends:
            end.wait()

    def _run(self, number: int, story: Story, end: Future[None]) -> None:
        told = perform(story)
        place = (*self._where, number)
        if isinstance(told, str):
            self._outcome.stories[place] = told
        else:
            here().afterwards[place] = told
        end.mark_completed(None)


def perform(story: Story) -> str | Callable[[], str]:
    """What came of a story, in a line (also if it raised), or a function that will tell."""
    try:
        return perform_of(story.kind)(story.worker)
    except Exception as error:
        return f"it raised {type(error).__name__}: {error}"
