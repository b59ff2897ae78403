"""Runs the asides of programs."""

from __future__ import annotations

from collections.abc import Callable

from squall.model.one_process.outcome import Outcome
from squall.model.program.program import Step
from squall.model.program.stories import Aside
from squall.real.future import Future
from squall.real.rpc.wire_names import label_module
from squall.real.runtime import current_worker
from squall.sim.programs.host import here
from squall.sim.programs.stories import api as aside_api
from squall.sim.programs.stories import calls as aside_calls
from squall.sim.programs.stories import nodes as aside_nodes
from squall.sim.programs.stories import passes as aside_passes
from squall.sim.programs.stories import services as aside_services

label_module("squall.model.program.stories", "stories")

#: of an aside: what to call with the worker that it is about; it tells, or gives what will tell
#: when the worker has shut down
Tale = Callable[[int], str | Callable[[], str]]
ASIDES: dict[str, Tale] = {
    "timeout": aside_calls.timeout,
    "late reference": aside_calls.late_reference,
    "late creation": aside_calls.late_creation,
    "slow creation": aside_calls.slow_creation,
    "failed creation": aside_calls.failed_creation,
    "callbacks": aside_calls.callbacks,
    "operator error": aside_calls.operator_error,
    "late error": aside_calls.late_error,
    "exceptions": aside_calls.exceptions,
    "unreadable argument": aside_calls.unreadable_argument,
    "unwritable": aside_calls.unwritable,
    "confirmation": aside_calls.confirmation,
    "left behind": aside_calls.left_behind,
    "reply without grad": aside_calls.reply_without_grad,
    "crowd": aside_calls.crowded,
    "crowd before a creation": aside_calls.crowd_before_a_creation,
    "structures": aside_calls.structures,
    "second pass": aside_passes.second_pass,
    "freed graph": aside_passes.freed_graph,
    "failed pass again": aside_passes.failed_pass_again,
    "overtaken pass": aside_passes.overtaken_pass,
    "stop at an error": aside_passes.stop_at_an_error,
    "released by a hook": aside_passes.released_by_a_hook,
    "released meanwhile": aside_passes.released_meanwhile,
    "leaf context": aside_passes.leaf_context,
    "hooks in order": aside_passes.hooks_in_order,
    "grad mode": aside_passes.grad_mode,
    "views of one gradient": aside_passes.views_of_one_gradient,
    "sparse, then dense": aside_passes.sparse_then_dense,
    "optimizer by grad": aside_passes.optimizer_by_grad,
    **aside_api.ASIDES,
    **aside_nodes.ASIDES,
    **aside_services.ASIDES,
}


class AsideRuns:
    """The asides of one step of a trainer, each in a task of its own."""

    def __init__(self, outcome: Outcome, trainer: int, number: int, step: Step) -> None:
        self._outcome = outcome
        self._where = (trainer, number)
        self._waiting = sorted(enumerate(step.asides), key=lambda each: each[1].before)
        self._ends: list[Future[None]] = []

    def begin(self, index: int) -> None:
        """Begin those that come before operation ``index`` at the latest."""
        while self._waiting and self._waiting[0][1].before <= index:
            number, aside = self._waiting.pop(0)
            worker = current_worker()
            end: Future[None] = Future(runtime=worker.runtime, what=f"aside {aside.kind!r}")
            self._ends.append(end)
            worker.runtime.spawn(
                self._run, number, aside, end, name="aside", worker=worker, daemon=False
            )

    def end(self) -> None:
        """Begin what has not begun, and wait for all of them."""
        if self._waiting:
            self.begin(self._waiting[-1][1].before)
        for end in self._ends:
            end.wait()

    def _run(self, number: int, aside: Aside, end: Future[None]) -> None:
        told = perform(aside)
        place = (*self._where, number)
        if isinstance(told, str):
            self._outcome.asides[place] = told
        else:
            here().afterwards[place] = told
        end.mark_completed(None)


def perform(aside: Aside) -> str | Callable[[], str]:
    """What came of it, in a line, or what will tell. What it raises is told as well."""
    try:
        return ASIDES[aside.kind](aside.worker)
    except Exception as error:
        return f"it raised {type(error).__name__}: {error}"
