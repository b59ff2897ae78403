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


class Kind(Enum):
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


class Rule(NamedTuple):
    apply: Callable[..., bool]
    kind: Kind
    shape: Shape


Rules = Mapping[str, Rule]

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
    "open_context": Rule(open_context, Kind.CHOICE, Shape.WORKER),
    "call": Rule(call, Kind.CHOICE, Shape.SENDING),
    "reply": Rule(reply, Kind.CHOICE, Shape.SENDING),
    "call_without_tensors": Rule(call_without_tensors, Kind.CHOICE, Shape.WORKERS),
    "begin": Rule(begin, Kind.CHOICE, Shape.BEGINNING),
    "release": Rule(release, Kind.FAIR, Shape.CONTEXT),
    "release_early": Rule(release_early, Kind.CHOICE, Shape.WORKER),
    "arrives": Rule(arrives, Kind.FAIR, Shape.PAIR),
    "call_fails": Rule(call_fails, Kind.FAIR, Shape.PAIR),
    "gradients_leave": Rule(gradients_leave, Kind.FAIR, Shape.GRADIENTS),
    "gradients_arrive": Rule(gradients_arrive, Kind.FAIR, Shape.GRADIENTS),
    "gradients_join": Rule(gradients_join, Kind.FAIR, Shape.GRADIENTS),
    "answer_arrives": Rule(answer_arrives, Kind.FAIR, Shape.GRADIENTS),
    "gradients_time_out": Rule(gradients_time_out, Kind.FAIR, Shape.GRADIENTS),
    "part_ends": Rule(part_ends, Kind.FAIR, Shape.PART),
    "part_answers": Rule(part_answers, Kind.FAIR, Shape.PART),
    "part_is_cut_off": Rule(part_is_cut_off, Kind.FAIR, Shape.PART),
    "part_gives_up": Rule(part_gives_up, Kind.FAIR, Shape.PART),
    "cleanup_arrives": Rule(cleanup_arrives, Kind.FAIR, Shape.CLEANUP),
    "repeat_cleanup": Rule(repeat_cleanup, Kind.FAIR, Shape.CLEANUP),
    **{each.__name__: Rule(each, Kind.FAULT, _FAULT_SHAPES[each.__name__]) for each in FAULTS},
}
#: what SMART mode would do
SMART: Rules = {
    **RULES,
    "begin": RULES["begin"]._replace(apply=partial(begin, counted=counted_smart)),
    "gradients_join": RULES["gradients_join"]._replace(
        apply=partial(gradients_join, counted=counted_smart)
    ),
}
