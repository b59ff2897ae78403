"""What is pointed out in pictures of the failing run and of one that passes: where each has what decided it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from squall.sim.search.why.doing import Doing, event_of
from squall.sim.search.why.seen import Call, Fault
from squall.sim.search.why.witness import Witness


class Mark(NamedTuple):
    """Something in words, and when it happens in the failing run and in the other; -1: it does not."""

    text: str
    failing: int
    passing: int = -1


def of_step(what: Doing, step: int, own: Witness, failing: Witness, passing: Witness) -> Mark:
    """A step that the run of ``own``, which is one of both, has made."""
    one, other = (
        what.event if run is own else event_of(what, own.entries[step], run, step)
        for run in (failing, passing)
    )
    return Mark(f"{what.who} {what.did}", one, other)


def of_fault(
    fault: Fault, said: str, calls: Sequence[Call], own: Witness, passing: Witness
) -> list[Mark]:
    """A fault, and what was called again because of it. ``calls``: what it has met, and the same again."""
    sent, there = fault.sent, -1
    if sent is not None and sent.call is not None:
        there = passing.arrival(sent.call, is_reply=sent.is_reply)
    found = [Mark(said.rstrip("."), fault.event, there)]
    for call in calls[1:2]:
        found.append(Mark(f"`{call.name}` was called again", own.arrival(call, is_reply=False)))
    return found
