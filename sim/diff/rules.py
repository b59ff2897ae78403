"""The differences between the engines that are known: rules, each with its reason.

``docs/divergences.md`` lists them for people, by the same names. A rule says which operations or
which error bring its difference about; a difference that no rule explains is unknown. What
follows from a known one (messages that were not sent, what is left behind, a hang) is told under
the name of the rule that explains the first difference of the scenario.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from squall.model.checks.compiled import TORN, first_line
from squall.model.one_process.flow import forecast
from squall.model.program.operations import KINDS
from squall.model.program.program import HELPER_CALLS, REFERENCE_CALLS, Op, Program, Step
from squall.sim.diff.difference import Difference


class Rule(NamedTuple):
    """``matches`` is asked about a difference, with the step it is about, if it is about one."""

    name: str
    matches: Callable[[Program, Step | None, Difference], bool]


#: error texts that a corrupted type string of an RRef leads to
_CORRUPTED = (
    "std::bad_alloc",
    "expected ident but found",
    "expected eof but found",
    "Unknown type name",
    "codec can't decode",
    "std::length_error",
    "basic_string",
    "Unknown type",
    "the connection to worker",  # whose process died of it
    "is not connected",
)


def _has(step: Step | None, test: Callable[[Op], bool]) -> bool:
    return step is not None and any(test(op) for op in step.ops)


def _makes_tuple_reference(op: Op) -> bool:
    return op.call == "rref" and KINDS[op.kind].outputs > 1


def _rref_of_a_tuple(program: Program, step: Step | None, difference: Difference) -> bool:
    """A call that carries an RRef of a tuple fails, is never answered, or ends the process that
    reads it. The error quotes what was read, and may come on any worker and in any step."""
    if not any(_has(each, _makes_tuple_reference) for _, _, each in program.steps):
        return False
    said = difference.torch + difference.detail
    if any(text in said for text in _CORRUPTED):
        return True
    unanswered = difference.torch == "it does not end" or "it did not end" in difference.torch
    return (unanswered and _has(step, _makes_tuple_reference)) or (
        difference.kind == "death" and _died(difference)
    )


def _died(difference: Difference) -> bool:
    return "SIGSEGV" in difference.torch or "SIGABRT" in difference.torch


def _home_before_creation(program: Program, step: Step | None, difference: Difference) -> bool:
    """A reference comes back to its owner by way of another worker, perhaps before the owner has
    made its value."""
    return difference.torch == "it does not end" and _has(
        step, lambda op: op.call in REFERENCE_CALLS and op.worker in _on_the_way(program, step, op)
    )


def _on_the_way(program: Program, step: Step | None, op: Op) -> set[int]:
    here = {t.worker for t in program.trainers if any(each is step for each in t.steps)}
    return {*op.via, *here} if op.via else set()


def _async_helper(program: Program, step: Step | None, difference: Difference) -> bool:
    return difference.kind in ("gradient", "outcome", "kept") and _has(
        step, lambda op: op.call == "helper_async"
    )


def _error_in_a_hook(program: Program, step: Step | None, difference: Difference) -> bool:
    return "python_error" in difference.torch


def _leaf_as_root(program: Program, step: Step | None, difference: Difference) -> bool:
    return "does not have a valid gradient function" in difference.torch


def _call_under_no_grad(program: Program, step: Step | None, difference: Difference) -> bool:
    return _has(step, lambda op: op.grad == "off_at_caller" and op.call != "local") and (
        difference.torch == "it does not end" or "ran for more than" in difference.torch
    )


def _gradient_stolen(program: Program, step: Step | None, difference: Difference) -> bool:
    return (difference.kind == "story" and difference.where == "views of one gradient") or (
        difference.kind == "gradient"
        and step is not None
        and sum(backward.times for backward in step.backwards) > 1
    )


def _storage_of_two_types(program: Program, step: Step | None, difference: Difference) -> bool:
    """A complex gradient and the real part of it are in one message: both arrive with one type."""
    is_complex = any(leaf.dtype.startswith("complex") for leaf in program.leaves) or any(
        _has(each, lambda op: op.kind == "cast" and op.dtype.startswith("complex"))
        for _, _, each in program.steps
    )
    return is_complex and (
        "input_is_complex == grad_is_complex" in difference.torch
        or "require a storage of at least" in difference.torch
    )


def _sparse_then_dense(program: Program, step: Step | None, difference: Difference) -> bool:
    sparse = any(leaf.kind == "embedding" for leaf in program.leaves)
    return (difference.kind == "story" and difference.where == "sparse, then dense") or (
        difference.kind == "gradient" and sparse
    )


def _text_with_stack(program: Program, step: Step | None, difference: Difference) -> bool:
    parts = [part.strip() for part in difference.port.split(";")]
    return (
        difference.kind in ("story", "outcome")
        and ("\nAt:" in difference.torch or "Exception raised from" in difference.torch)
        and all(first_line(part) in difference.torch for part in parts)
    )


def _story(*kinds: str, torch: str = "") -> Callable[[Program, Step | None, Difference], bool]:
    return lambda program, step, difference: (
        difference.kind == "story" and difference.where in kinds and torch in difference.torch
    )


def _stories(program: Program) -> set[str]:
    return {story.kind for _, _, step in program.steps for story in step.stories}


def _failed_creation(program: Program, step: Step | None, difference: Difference) -> bool:
    """Whatever waits for callbacks of a failed creation waits for ever: the story itself, its step,
    others."""
    return (
        difference.torch == "it does not end" or "it did not end" in difference.torch
    ) and "failed creation" in _stories(program)


def _type_requests(program: Program, step: Step | None, difference: Difference) -> bool:
    """At most as many as there are calls by helpers of RRefs, in first and second attempts
    together."""
    helpers = sum(
        (1 + each.retry) * sum(op.call in HELPER_CALLS for op in each.ops)
        for _, _, each in program.steps
    )
    return (
        difference.kind == "messages"
        and difference.where in ("PYTHON_CALL", "PYTHON_RET")
        and abs(int(difference.port) - int(difference.torch)) <= helpers
    )


def _script_optimizer(program: Program, step: Step | None, difference: Difference) -> bool:
    used = "optimizer by grad" in _stories(program) or any(
        trainer.optimizer is not None for trainer in program.trainers
    )
    return used and (
        _story("optimizer by grad")(program, step, difference)
        or (difference.kind == "messages" and _is_call(difference.where))
    )


def _script_or_python(program: Program, step: Step | None, difference: Difference) -> bool:
    return difference.kind == "messages" and difference.detail == "as many of both kinds"


def _no_grad_not_recorded(program: Program, step: Step | None, difference: Difference) -> bool:
    """Numbers of messages differ in a step that calls under ``no_grad``, or outside of all
    steps."""
    steps = [each for _, _, each in program.steps] if step is None else [step]
    return difference.kind == "messages" and any(
        _has(each, lambda op: op.grad == "off_at_caller") for each in steps
    )


def _is_call(type: str) -> bool:
    return type.startswith(("SCRIPT_", "PYTHON_"))


def _reference_lost(program: Program, step: Step | None, difference: Difference) -> bool:
    unread = {"unreadable argument", "unwritable", "failed creation"} & _stories(program)
    return bool(unread) and _reference_stays(difference)


def _late_reference(program: Program, step: Step | None, difference: Difference) -> bool:
    late = {"late reference", "late creation"} & _stories(program)
    return bool(late) and _reference_stays(difference)


def _reference_stays(difference: Difference) -> bool:
    """Something is left of a reference, and a worker that shuts down waits for its end."""
    return difference.kind in ("hang", "left") and (
        "num_owner_rrefs" in difference.torch + difference.detail
    )


def _fails(program: Program) -> bool:
    return any(_step_fails(step) for _, _, step in program.steps)


def _step_fails(step: Step) -> bool:
    return _has(step, lambda op: op.fault is not None) or any(
        story.kind in _FAILING for story in step.stories
    )


_NO_DATA = "Couldn't find autograd context data for current autograd context id"
#: stories in which something is to fail
_FAILING = {
    "failed creation",
    "unreadable argument",
    "unwritable",
    "failed pass again",
    "freed graph",
    "second pass",
    "released by a hook",
    "released meanwhile",
    "stop at an error",
    "late error",
    "operator error",
    "timeout",
    "late creation",
    "late reference",
}


def _pass_left_behind(program: Program, step: Step | None, difference: Difference) -> bool:
    """A worker still counts a pass that is over elsewhere, or its caller waits for it."""
    said = difference.torch + difference.detail
    return (
        difference.kind in ("hang", "left")
        and (_fails(program) or _hangs(program))
        and ("num_current_backward_passes" in said or "BACKWARD_AUTOGRAD_REQ" in said)
    )


def _outlived_context(program: Program, step: Step | None, difference: Difference) -> bool:
    """A call of a pass that failed is counted for ever, and nothing else is under way; or the error
    of locking the freed context was printed."""
    if difference.torch == TORN:
        return _fails(program) or _hangs(program)
    return (
        difference.kind == "hang"
        and _fails(program)
        and "agent.client_active_calls" in difference.detail
        and not any(text in difference.detail for text in ("waits for the reply", "num_"))
    )


def _context_came_back(program: Program, step: Step | None, difference: Difference) -> bool:
    return (
        difference.kind == "left"
        and "num_autograd_contexts" in difference.torch
        and (_fails(program) or _hangs(program))
    )


def _process_death(program: Program, step: Step | None, difference: Difference) -> bool:
    lost = "the connection to worker" in difference.torch or "is not connected" in difference.torch
    return _fails(program) and ((difference.kind == "death" and _died(difference)) or lost)


def _counts_after_a_failure(program: Program, step: Step | None, difference: Difference) -> bool:
    """Numbers of messages differ in the step that fails; if one waits for ever, in any step; and
    among messages that belong to no step, or to an attempt that failed."""
    if difference.kind != "messages":
        return False
    return _hangs(program) or (_fails(program) if step is None else _step_fails(step))


def _hangs(program: Program) -> bool:
    return any(forecast(program, t, s).unfed for t, s, _ in program.steps)


def _over_already(program: Program, step: Step | None, difference: Difference) -> bool:
    """The port says at once that a pass is over; torch takes the gradients for a new one."""
    return "belong to is over" in difference.port


#: in the order in which they are asked
RULES: tuple[Rule, ...] = (
    Rule("rref-of-a-tuple", _rref_of_a_tuple),
    Rule("error-in-a-hook", _error_in_a_hook),
    Rule("leaf-as-root", _leaf_as_root),
    Rule("call-under-no-grad", _call_under_no_grad),
    Rule("async-helper-without-context", _async_helper),
    Rule("gradient-stolen", _gradient_stolen),
    Rule("storage-of-two-types", _storage_of_two_types),
    Rule("sparse-then-dense", _sparse_then_dense),
    Rule("home-before-creation", _home_before_creation),
    Rule("error-text-with-stack", _text_with_stack),
    Rule("failed-creation-hangs", _failed_creation),
    Rule("late-error-is-a-value", _story("late error", torch="no error but")),
    Rule("confirmed-after-its-future", _story("confirmation")),
    Rule("second-pass", _story("second pass", "overtaken pass", torch="False")),
    Rule("late-gradients-start-a-pass", _over_already),
    Rule("released-while-it-was-called", _story("released meanwhile", torch=_NO_DATA)),
    Rule("script-or-python", _script_or_python),
    Rule("script-optimizer", _script_optimizer),
    Rule("no-grad-not-recorded", _no_grad_not_recorded),
    Rule("type-requests", _type_requests),
    Rule("reference-lost-with-its-message", _reference_lost),
    Rule("late-reference-leaks", _late_reference),
    Rule("pass-left-behind", _pass_left_behind),
    Rule("outstanding-call-outlives-context", _outlived_context),
    Rule("process-death", _process_death),
    Rule("context-came-back", _context_came_back),
    Rule("counts-after-a-failure", _counts_after_a_failure),
)

_ALL = ("messages", "left", "hang", "kept")
#: what may follow from a difference, by its rule: after a call that fails or waits for ever on one
#: engine alone, everything; after a wrong value, or another text, nothing
_FOLLOWS: dict[str, tuple[str, ...]] = {
    "rref-of-a-tuple": _ALL,
    "call-under-no-grad": _ALL,
    "home-before-creation": _ALL,
    "failed-creation-hangs": _ALL,
    "storage-of-two-types": _ALL,
    "process-death": (*_ALL, "outcome"),
    "outstanding-call-outlives-context": (*_ALL, "outcome"),
    "async-helper-without-context": _ALL,
    "leaf-as-root": ("messages",),
    "late-gradients-start-a-pass": ("messages", "left", "hang"),
}


def _never_begun(difference: Difference, all: Sequence[Difference]) -> Difference:
    """A step that never began, since its trainer waits in an earlier one, has the rule of that
    one."""
    if difference.rule is not None or difference.torch != "it does not end":
        return difference
    assert difference.step is not None
    trainer, number = difference.step
    for earlier in all:
        if earlier.rule is None or earlier.step is None or "not end" not in earlier.torch:
            continue
        if earlier.step[0] == trainer and earlier.step[1] < number:
            return replace(difference, rule=earlier.rule)
    return difference


def with_rules(program: Program, differences: Sequence[Difference]) -> list[Difference]:
    """The differences, each with the rule that explains it, if there is one."""
    found = []
    for difference in differences:
        step = None
        if difference.step is not None:
            trainer, number = difference.step
            step = program.trainers[trainer].steps[number]
        rule = next((r.name for r in RULES if r.matches(program, step, difference)), None)
        found.append(replace(difference, rule=rule))
    found = [_never_begun(each, found) for each in found]
    return [_following(each, found) if each.rule is None else each for each in found]


def _following(difference: Difference, all: Sequence[Difference]) -> Difference:
    """With the rule that explains a difference that it follows from."""
    for cause in all:
        elsewhere = None not in (difference.step, cause.step) and cause.step != difference.step
        if cause.rule is None or (elsewhere and cause.torch != "it does not end"):
            continue
        if difference.kind in _FOLLOWS.get(cause.rule, ()):
            return replace(difference, rule=cause.rule)
    return difference
