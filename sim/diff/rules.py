"""The differences between the engines that are known: rules, each of which predicts torch's side.

``docs/divergences.md`` lists them for people, by the same names. A rule is asked about one
difference (sim/diff/difference.py) and says whether torch's value is the one that it predicts, from
the program, from the port's result and from what else torch came to: the wrong gradient, the text,
the count, the leftover. A difference that no rule predicts is unknown.

No rule excuses the port: where a single process says what must come, the port's side is that.
Only a step that ends early on torch alone, or never, is followed by others: what it did not come to
is missing, and no more than that (:func:`_missing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from squall.model.program.stories import AS_IT_SHOULD_BE
from squall.sim.diff.case import Case, Predicts
from squall.sim.diff.difference import Difference
from squall.sim.diff.facts import A_VALUE, NO_END
from squall.sim.diff.rules_counts import COUNT_RULES
from squall.sim.diff.rules_left import LEFT_RULES
from squall.sim.diff.rules_values import VALUE_RULES, told_on_torch


class DifferenceRule(NamedTuple):
    """``predicts``: whether torch's side of a difference is what the rule says that it is."""

    name: str
    predicts: Predicts


#: in the order in which they are asked; a name may have several
RULES: tuple[DifferenceRule, ...] = tuple(
    DifferenceRule(name, predicts) for name, predicts in (*VALUE_RULES, *LEFT_RULES, *COUNT_RULES)
)
#: kinds of facts that a step which ends early does not come to
_LATER = ("passes", "gradient", "root", "kept", "story", "beside", "first error")

#: the rule by which a step waits in a pass; and what it sends from then on
_IN_A_PASS = "pass-after-a-timeout"
_OF_PASSES = ("BACKWARD_AUTOGRAD_REQ", "RREF_BACKWARD_REQ", "CLEANUP_AUTOGRAD_CONTEXT_REQ")
#: what an optimizer calls with its references, and that these have arrived
_OF_AN_OPTIMIZER = ("FORWARD_AUTOGRAD_REQ", "RREF_CHILD_ACCEPT")
#: requests that are answered without waiting for anything
_ANSWERED = (
    "RREF_CHILD_ACCEPT",
    "RREF_USER_DELETE",
    "RREF_FORK_REQUEST",
    "CLEANUP_AUTOGRAD_CONTEXT_REQ",
)
#: both engines fail at the same place, with another text
_SAME_ERROR = (
    "error-in-a-hook",
    "error-text-with-stack",
    "another-error-first",
    "type-before-the-error",
)


def with_rules(case: Case, differences: Sequence[Difference]) -> list[Difference]:
    """The differences, each with the rule that predicts it, if there is one."""
    # What a quirk makes is exact: nothing follows from it.
    quirks = [each for each in differences if each.rule is not None]
    found = []
    for difference in differences:
        if difference.rule is None and case.port_is_right(difference):
            rule = next((r.name for r in RULES if r.predicts(case, difference)), None)
            rule = rule or told_on_torch(case, difference)
            found.append(replace(difference, rule=rule))
        elif difference.rule is None:
            found.append(difference)
    return quirks + [
        _following(case, each, found) if each.rule is None and case.port_is_right(each) else each
        for each in found
    ]


def _following(case: Case, difference: Difference, all: Sequence[Difference]) -> Difference:
    """With the rule of the step that ended early, or never, where it follows from that."""
    for cause in all:
        if _goes_on(difference, cause) or _told_afterwards(case, difference, cause):
            return replace(difference, rule=cause.rule)
        ended = (
            cause.place[0] in ("outcome", "beside")
            and cause.theirs not in (A_VALUE, AS_IT_SHOULD_BE)
            and cause.rule not in _SAME_ERROR
        )
        if cause.rule is None or not (ended or cause.theirs == NO_END):
            continue
        assert cause.step is not None
        never = cause.theirs == NO_END or case.dies
        beside = any(
            each.place[0] in ("story", "beside")
            and each.step == cause.step
            and each.theirs == NO_END
            for each in all
        )
        if _missing(case, difference, cause.step, never=never) and not (
            cause.rule == _IN_A_PASS and _sent_before_passes(case, difference, cause, beside=beside)
        ):
            return replace(difference, rule=cause.rule)
    return difference


def _goes_on(difference: Difference, cause: Difference) -> bool:
    """Whether torch has more because a call of the step was never reached by the error that ends it
    on the port."""
    place = ("outcome", *(difference.step or ()))
    if cause.place != place or cause.rule is None or cause.theirs != A_VALUE:
        return False
    if difference.place[0] == "passes":
        return bool(difference.theirs > difference.ours)
    return difference.place[0] in ("gradient", "root") and difference.ours is None


def _told_afterwards(case: Case, difference: Difference, cause: Difference) -> bool:
    """Whether a story lacks its end because shutdown never ends, after which it is told."""
    return (
        difference.place[0] == "story"
        and case.story(difference.place).kind == "after the end"
        and difference.theirs == NO_END
        and cause.place[0] == "hang"
        and cause.rule is not None
    )


def _sent_before_passes(
    case: Case, difference: Difference, cause: Difference, *, beside: bool
) -> bool:
    """Whether a request is one that a step whose pass fails, or never ends, has made before.

    ``beside``: whether something beside the step does not end, or begin, either.
    """
    if difference.place[0] != "requests":
        return False
    type = difference.place[1]
    assert cause.step is not None
    if type in _OF_AN_OPTIMIZER and case.step(cause.step).optimize:
        return False  # which follow from its step after the pass
    if type == "FORWARD_AUTOGRAD_REQ" and any(
        each.where == "udf" for each in case.step(cause.step).backwards
    ):
        return False  # by which a later pass begins
    if cause.theirs == NO_END:
        last = len(case.program.trainers[cause.step[0]].steps) - 1
        return type == "REMOTE_CALL" and cause.step[1] == last and not beside
    return type not in _OF_PASSES


def _missing(case: Case, difference: Difference, cause: tuple[int, int], *, never: bool) -> bool:
    """Whether a difference is that torch lacks what a step would have come to.

    ``never``: the step does not end, so that its trainer begins no later one.
    """
    kind, step = difference.place[0], difference.step
    about = step == cause or (
        never and step is not None and step[0] == cause[0] and step[1] > cause[1]
    )
    if about and kind == "outcome":
        return case.never_ends(difference)
    if kind == "kept" and never and difference.place[1] == cause[0]:
        return difference.theirs is None  # which are read when all steps are done
    if about and kind in _LATER:
        if kind == "passes":
            return bool(difference.theirs < difference.ours)
        return difference.theirs is None or difference.theirs in (NO_END, "none")
    if kind in ("leaf", "root", "gradient") and case.step(cause).optimize:
        return case.is_cut_short(difference)  # which its optimizer has not stepped
    if difference.kind == "messages" and (about or step is None):
        return _fewer(case, difference, cause, never=never)
    return False


def _fewer(case: Case, difference: Difference, cause: tuple[int, int], *, never: bool) -> bool:
    """Fewer messages; and the one call that failed was refused, or is not answered."""
    kind, ours, theirs = difference.place[0], difference.ours, difference.theirs
    if kind in ("requests", "wrapped"):
        calls = kind == "requests" and difference.place[1] in ("CALL", "REMOTE_CALL")
        if calls and not never:
            return False  # a step that fails in the end has made its calls
        return bool(theirs < ours)
    if kind == "refused":
        type = difference.place[1]
        missing = case.requests(type)
        missing += sum(case.unanswered(worker, type) for worker in range(case.program.workers))
        # The call that failed, and those that it came by.
        through = max((len(op.via) for op in case.step(cause).ops), default=0)
        more = 0 if type in _ANSWERED else 1 + through
        return bool(ours - max(0, missing) <= theirs <= ours + more)
    if kind == "unanswered" and theirs < ours:
        return bool(ours - theirs <= case.requests(difference.place[1]))
    if kind == "unanswered" and case.dies:
        return bool(theirs > ours)
    if kind != "unanswered" or difference.place[1] in _ANSWERED:
        return False
    return never and bool(theirs <= ours + 1)
