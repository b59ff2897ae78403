"""What holds in every state of a backward pass, and what is left when nothing has to happen any more."""

from __future__ import annotations

from collections.abc import Iterator

from squall.model.protocol.passes.number_set import Numbers
from squall.model.protocol.passes.state import (
    UNMADE,
    Context,
    ContextStage,
    Gradients,
    Pass,
    Progress,
    Way,
)
from squall.properties.model.protocol.passes.world import State, World

#: of a part that has done what there was to do
_DONE = (Progress.DONE, Progress.FOLLOWED)


def breaches(world: World, state: State) -> Iterator[str]:
    """The invariants that a state breaks, in words."""
    for context in state.contexts:
        copies = 1 + world.faults - state.faults
        if any(count > copies for count in context.cleanups.values()):
            yield "a release is told twice without a reason"
        for _, worker in context.told:
            if context.stage(worker) is not ContextStage.RELEASED:
                yield "a context comes back to life"
        for worker in context.stages:
            parts = [each.parts[worker] for each in context.passes if worker in each.parts]
            if sum(part.runs for part in parts) > 1:
                yield "two passes run on a worker"
        for each in context.passes:
            yield from _of(context, each)
            if world.careful and state.faults == world.faults:
                yield from _fails(each)


def _of(context: Context, each: Pass) -> Iterator[str]:
    for part in each.parts.values():
        if not part.fed <= Numbers(each.gradients):
            yield "a pass is given gradients that it has not sent"
        if part.progress in _DONE and part.fed != part.counted:
            yield "a part ends before its gradients have come"
    for number in each.gradients:
        part = each.parts[context.pairs[number].to]
        if any(number in context.pairs[n].leads for n in part.counted - part.fed):
            yield "gradients leave before all has come that leads to them"
    if not each.succeeded:
        return
    if any(part.progress not in _DONE for part in each.parts.values()):
        yield "a pass ends while a worker is at it"
    if any(gradients is not Gradients.HEARD for gradients in each.gradients.values()):
        yield "a pass ends while its gradients are on their way"
    fed = Numbers(number for part in each.parts.values() for number in part.fed)
    if fed != context.reached(each.roots):
        yield "a pass ends that has not been where its roots lead"


def _fails(each: Pass) -> Iterator[str]:
    if Gradients.REFUSED in each.gradients.values():
        yield "gradients find no send function, without a fault"
    for part in each.parts.values():
        if part.progress is Progress.FAILING or part.progress is Progress.FAILED:
            yield "a pass fails without a fault"


def waits_for_ever(context: Context) -> bool:
    """Whether a part waits for gradients that nobody will send, since the roots of its pass do not lead
    there: what FAST mode comes to where a program does not keep to what it asks."""
    return any(
        part.progress is Progress.RUNNING and not part.counted <= context.reached(each.roots)
        for each in context.passes
        for part in each.parts.values()
    )


def left(world: World, state: State) -> Iterator[str]:
    """What is left of a state in which nothing has to happen, in words. A program that does not keep to
    what FAST mode asks waits for its pass, and its context is not released."""
    for context in state.contexts:
        if not world.careful and waits_for_ever(context):
            continue
        if ContextStage.LIVE in context.stages.values():
            yield "a context is left"
        for each in context.passes:
            if any(part.runs for part in each.parts.values()):
                yield "a part of a pass is left"
        for (by, to), copies in context.cleanups.items():
            if copies or (by, to) not in context.told:
                yield "a release is left that its receiver has not heard of"


def measure(world: World, state: State) -> int:
    """A number that each step lowers, so that every run comes to an end: what is still to come weighs
    more than all that it can bring."""
    total = 1000 * state.faults
    for context in state.contexts:
        total += 2000 * (context.maker == UNMADE)
        total += 400 * (world.passes - len(context.passes))
        total += 80 * (world.pairs - len(context.pairs))
        total += sum(_STAGES[context.stage(worker)] for worker in range(world.workers))
        for pair in context.pairs:
            total += _WAYS[pair.way] + pair.attached
        for each in context.passes:
            total += 20 * (world.workers - len(each.parts))
            total += sum(_PROGRESS[part.progress] for part in each.parts.values())
            total += 12 * (len(context.pairs) - len(each.gradients))
            total += sum(_GRADIENTS[gradients] for gradients in each.gradients.values())
        for where, copies in context.cleanups.items():
            total += 2 * copies + 3 * (copies == 0 and where not in context.told)
    return total


_STAGES = {ContextStage.ABSENT: 200, ContextStage.LIVE: 100, ContextStage.RELEASED: 0}
_WAYS = {Way.UNDER_WAY: 5, Way.ARRIVED: 1, Way.LOST: 1, Way.BACK: 0}
_PROGRESS = {
    Progress.RUNNING: 10,
    Progress.FAILING: 5,
    Progress.DONE: 0,
    Progress.FAILED: 0,
    Progress.FOLLOWED: 0,
}
_GRADIENTS = {
    Gradients.UNDER_WAY: 10,
    Gradients.TAKEN_UP: 9,
    Gradients.WORKED_ON: 8,
    Gradients.ANSWERED: 4,
    Gradients.REFUSED: 4,
    Gradients.LOST: 2,
    Gradients.HEARD: 0,
}
