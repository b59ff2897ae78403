"""All rules of contexts and passes, by name: why each is taken, and what it is about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import NamedTuple

from squall.model.protocol.passes.faults import FAULTS
from squall.model.protocol.passes.rules import (
    answer_arrives,
    arrives,
    begin,
    call,
    call_fails,
    call_without_tensors,
    cleanup_arrives,
    counted_smart,
    gradients_arrive,
    gradients_join,
    gradients_leave,
    gradients_time_out,
    open_context,
    part_answers,
    part_ends,
    part_gives_up,
    part_is_cut_off,
    release,
    release_early,
    repeat_cleanup,
    reply,
)


class RuleKind(Enum):
    """Why a step is taken, and whether it is taken in the end."""

    #: the program may or may not
    CHOICE = "choice"
    #: it happens in the end, unless another step makes it impossible
    FAIR = "fair"
    #: it takes one of the faults that may come
    FAULT = "fault"


class Shape(Enum):
    """What a rule is about: its arguments after the context."""

    #: (worker)
    WORKER = "worker"
    #: (at, to, leads)
    SENDING = "sending"
    #: (at, to)
    WORKERS = "workers"
    #: (worker, roots)
    BEGINNING = "beginning"
    #: ()
    CONTEXT = "context"
    #: (pair)
    PAIR = "pair"
    #: (pass, pair)
    GRADIENTS = "gradients"
    #: (pass, worker)
    PART = "part"
    #: (who tells, who is told)
    CLEANUP = "cleanup"


class PassRule(NamedTuple):
    apply: Callable[..., bool]
    kind: RuleKind
    shape: Shape


Rules = Mapping[str, PassRule]

#: what each fault is about
_FAULT_SHAPES = {
    "lose_message": Shape.PAIR,
    "call_is_late": Shape.PAIR,
    "take_back": Shape.PAIR,
    "lose_gradients": Shape.GRADIENTS,
    "lose_answer": Shape.GRADIENTS,
    "gradients_are_late": Shape.GRADIENTS,
    "node_raises": Shape.PART,
    "lose_cleanup": Shape.CLEANUP,
    "double_cleanup": Shape.CLEANUP,
}
#: the protocol, by name
RULES: Rules = {
    "open_context": PassRule(open_context, RuleKind.CHOICE, Shape.WORKER),
    "call": PassRule(call, RuleKind.CHOICE, Shape.SENDING),
    "reply": PassRule(reply, RuleKind.CHOICE, Shape.SENDING),
    "call_without_tensors": PassRule(call_without_tensors, RuleKind.CHOICE, Shape.WORKERS),
    "begin": PassRule(begin, RuleKind.CHOICE, Shape.BEGINNING),
    "release": PassRule(release, RuleKind.FAIR, Shape.CONTEXT),
    "release_early": PassRule(release_early, RuleKind.CHOICE, Shape.WORKER),
    "arrives": PassRule(arrives, RuleKind.FAIR, Shape.PAIR),
    "call_fails": PassRule(call_fails, RuleKind.FAIR, Shape.PAIR),
    "gradients_leave": PassRule(gradients_leave, RuleKind.FAIR, Shape.GRADIENTS),
    "gradients_arrive": PassRule(gradients_arrive, RuleKind.FAIR, Shape.GRADIENTS),
    "gradients_join": PassRule(gradients_join, RuleKind.FAIR, Shape.GRADIENTS),
    "answer_arrives": PassRule(answer_arrives, RuleKind.FAIR, Shape.GRADIENTS),
    "gradients_time_out": PassRule(gradients_time_out, RuleKind.FAIR, Shape.GRADIENTS),
    "part_ends": PassRule(part_ends, RuleKind.FAIR, Shape.PART),
    "part_answers": PassRule(part_answers, RuleKind.FAIR, Shape.PART),
    "part_is_cut_off": PassRule(part_is_cut_off, RuleKind.FAIR, Shape.PART),
    "part_gives_up": PassRule(part_gives_up, RuleKind.FAIR, Shape.PART),
    "cleanup_arrives": PassRule(cleanup_arrives, RuleKind.FAIR, Shape.CLEANUP),
    "repeat_cleanup": PassRule(repeat_cleanup, RuleKind.FAIR, Shape.CLEANUP),
    **{
        each.__name__: PassRule(each, RuleKind.FAULT, _FAULT_SHAPES[each.__name__])
        for each in FAULTS
    },
}
#: what SMART mode would do
SMART: Rules = {
    **RULES,
    "begin": RULES["begin"]._replace(apply=partial(begin, counted=counted_smart)),
    "gradients_join": RULES["gradients_join"]._replace(
        apply=partial(gradients_join, counted=counted_smart)
    ),
}
