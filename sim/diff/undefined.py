"""What PyTorch's engine leaves open, and is not compared: passes after one that failed.

A pass that is given up still runs on some workers, and PyTorch's messages do not say which pass they
belong to (finding ``pass-after-a-timeout``): what is late of it joins the next pass of its context,
begins one of its own, or refuses it. And where user code sleeps, who times out depends on which of
two nodes a worker runs first, which neither engine promises. So of a step in which a pass failed,
on either engine, everything up to that pass is compared, and afterwards how the step ends. Passes
that begin beside each other are one in this.
"""

from __future__ import annotations

from squall.model.program.program import Program, Step
from squall.sim.diff.facts import Facts, Place

#: what of this engine's list of what is impossible says so (squall diff)
REASON = {
    "passes after one that failed in the same context": "they are not compared: PyTorch's "
    "messages do not say which pass they are of, so what is late of the failed one counts for the "
    "next (pass-after-a-timeout)",
}

Key = tuple[int, int]
_OF_PASSES = frozenset({"BACKWARD_AUTOGRAD_REQ", "RREF_BACKWARD_REQ"})
_OF_RELEASE = "CLEANUP_AUTOGRAD_CONTEXT_REQ"
_PASSES = "num_current_backward_passes"


def open_from(program: Program, *both: Facts) -> dict[Key, int]:
    """The first pass of each step, by its number among all of the step, that is not defined."""
    found: dict[Key, int] = {}
    for facts in both:
        for place in facts:
            if place[0] == "failed":
                key, number = (place[1], place[2]), place[3]
                found[key] = min(found.get(key, number), number)
    for (trainer, number), first in found.items():
        step = program.trainers[trainer].steps[number]
        found[trainer, number] = _began_together(step, first)
    return found


def _began_together(step: Step, number: int) -> int:
    """The first of the passes that run beside this one."""
    first = 0
    for backward in step.backwards:
        if number < first + backward.times:
            return number if backward.every_s is None else first
        first += backward.times
    return number


def defined(program: Program, port: Facts, torch: Facts) -> tuple[Facts, Facts]:
    """Both without what is not defined."""
    first = open_from(program, port, torch)
    if not first:
        return port, torch
    both = {
        place: value
        for place, value in port.items()
        if place[0] == "failed" and torch.get(place) is not None
    }

    def kept(facts: Facts) -> Facts:
        return {
            place: value
            for place, value in facts.items()
            if is_defined(first, place) or (place in both and place[3] == first[place[1:3]])
        }

    return kept(port), kept(torch)


def is_defined(first: dict[Key, int], place: Place) -> bool:
    """Whether a fact is, where these are the first passes that are not (:func:`open_from`)."""
    if not first:
        return True
    kind = place[0]
    if kind in ("failed", "passes"):
        return (place[1], place[2]) not in first
    if kind == "gradient":
        return bool(place[3] < first.get((place[1], place[2]), place[3] + 1))
    if kind in ("refused", "unanswered"):
        return place[1] not in _OF_PASSES
    if kind == "requests" and (place[1] in _OF_PASSES or place[1] == _OF_RELEASE):
        return place[2] is not None and place[2] not in first
    return bool(kind != "left" or place[2] != _PASSES)
