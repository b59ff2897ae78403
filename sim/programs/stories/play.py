"""Runs the stories of programs."""

from __future__ import annotations

from collections.abc import Callable

from squall.model.one_process.outcome import Outcome
from squall.model.program.program import Step
from squall.model.program.stories import Story
from squall.real.future import Future
from squall.real.rpc.wire_names import label_module
from squall.real.worker import current_worker
from squall.sim.programs.host import here
from squall.sim.programs.stories import api as story_api
from squall.sim.programs.stories import calls as story_calls
from squall.sim.programs.stories import nodes as story_nodes
from squall.sim.programs.stories import passes as story_passes
from squall.sim.programs.stories import services as story_services

label_module("squall.model.program.stories", "stories")

#: of a story: what to call with the worker that it is about; it tells, or gives what will tell
#: when the worker has shut down
Tale = Callable[[int], str | Callable[[], str]]
STORIES: dict[str, Tale] = {
    "timeout": story_calls.timeout,
    "late reference": story_calls.late_reference,
    "late creation": story_calls.late_creation,
    "slow creation": story_calls.slow_creation,
    "failed creation": story_calls.failed_creation,
    "callbacks": story_calls.callbacks,
    "operator error": story_calls.operator_error,
    "late error": story_calls.late_error,
    "exceptions": story_calls.exceptions,
    "unreadable argument": story_calls.unreadable_argument,
    "unwritable": story_calls.unwritable,
    "confirmation": story_calls.confirmation,
    "left behind": story_calls.left_behind,
    "reply without grad": story_calls.reply_without_grad,
    "crowd": story_calls.crowded,
    "crowd before a creation": story_calls.crowd_before_a_creation,
    "structures": story_calls.structures,
    "second pass": story_passes.second_pass,
    "freed graph": story_passes.freed_graph,
    "failed pass again": story_passes.failed_pass_again,
    "overtaken pass": story_passes.overtaken_pass,
    "stop at an error": story_passes.stop_at_an_error,
    "released by a hook": story_passes.released_by_a_hook,
    "released meanwhile": story_passes.released_meanwhile,
    "leaf context": story_passes.leaf_context,
    "hooks in order": story_passes.hooks_in_order,
    "grad mode": story_passes.grad_mode,
    "views of one gradient": story_passes.views_of_one_gradient,
    "sparse, then dense": story_passes.sparse_then_dense,
    "optimizer by grad": story_passes.optimizer_by_grad,
    **story_api.STORIES,
    **story_nodes.STORIES,
    **story_services.STORIES,
}


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
    """What came of it, in a line, or what will tell. What it raises is told as well."""
    try:
        return STORIES[story.kind](story.worker)
    except Exception as error:
        return f"it raised {type(error).__name__}: {error}"
