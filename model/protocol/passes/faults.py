"""What can go wrong with messages and passes, as rules like those of
:mod:`squall.model.protocol.passes.rules`: each step takes one of the faults that a world allows."""

from __future__ import annotations

from squall.model.protocol.passes.state import Context, Gradients, Progress, Way, WorkerPass


def fail_part(part: WorkerPass) -> None:
    """An error ends a part that runs; of one that is over it is ignored."""
    if part.progress is Progress.RUNNING:
        part.progress = Progress.FAILING


def hear_error(context: Context, number: int, pair: int) -> None:
    """What a part sent on was refused, or not answered in time."""
    each = context.passes[number]
    part = each.parts[context.pairs[pair].to]
    fail_part(part)
    if part.progress is Progress.FOLLOWED and each.gradients[part.first] is Gradients.WORKED_ON:
        each.gradients[part.first] = Gradients.REFUSED


def lose_send_function(context: Context, number: int) -> None:
    """No gradients will come for a pair: a part that waits for them has failed."""
    pair = context.pairs[number]
    pair.attached = False
    running = context.running(pair.at)
    if running is not None:
        part = context.passes[running].parts[pair.at]
        if number in part.counted - part.fed:
            fail_part(part)


def lose_message(context: Context, number: int) -> bool:
    """A call or a reply. The caller gives the call up in the end; of a lost reply the callee does not
    hear, and keeps its send function."""
    pair = context.pairs[number]
    if pair.way is not Way.UNDER_WAY:
        return False
    pair.way = Way.LOST
    return True


def call_is_late(context: Context, number: int) -> bool:
    """The caller gives a call up that is under way or worked on, or hears of an error of it."""
    pair = context.pairs[number]
    if pair.way is Way.LOST or pair.way is Way.BACK or pair.reply or not pair.attached:
        return False
    lose_send_function(context, number)
    return True


def take_back(context: Context, number: int) -> bool:
    """A message never leaves, and its sender knows: it is as if it had not been."""
    pair = context.pairs[number]
    if pair.way is not Way.UNDER_WAY:
        return False
    pair.way = Way.BACK
    if pair.attached:
        lose_send_function(context, number)
    return True


def lose_gradients(context: Context, number: int, pair: int) -> bool:
    gradients = context.passes[number].gradients
    if gradients.get(pair) is not Gradients.UNDER_WAY:
        return False
    gradients[pair] = Gradients.LOST
    return True


def lose_answer(context: Context, number: int, pair: int) -> bool:
    gradients = context.passes[number].gradients
    if gradients.get(pair) not in (Gradients.ANSWERED, Gradients.REFUSED):
        return False
    gradients[pair] = Gradients.LOST
    return True


def gradients_are_late(context: Context, number: int, pair: int) -> bool:
    """Their sender gives them up while they, or the answer, are under way. They come all the same, to
    a pass that may be over."""
    each = context.passes[number]
    if each.gradients.get(pair) not in (
        Gradients.UNDER_WAY,
        Gradients.TAKEN_UP,
        Gradients.WORKED_ON,
        Gradients.ANSWERED,
    ):
        return False
    part = each.parts[context.pairs[pair].to]
    if part.progress is not Progress.RUNNING and part.progress is not Progress.FOLLOWED:
        return False
    hear_error(context, number, pair)
    return True


def node_raises(context: Context, number: int, worker: int) -> bool:
    """A node, a hook, or user code that the part runs."""
    part = context.passes[number].parts.get(worker)
    if part is None or part.progress is not Progress.RUNNING:
        return False
    fail_part(part)
    return True


def lose_cleanup(context: Context, by: int, to: int) -> bool:
    if not context.cleanups.get((by, to)):
        return False
    context.cleanups[by, to] -= 1
    return True


def double_cleanup(context: Context, by: int, to: int) -> bool:
    """The network doubles it, or its sender repeats it while it, or its answer, is only slow."""
    if (by, to) not in context.cleanups:
        return False
    context.cleanups[by, to] += 1
    return True


FAULTS = (
    lose_message,
    call_is_late,
    take_back,
    lose_gradients,
    lose_answer,
    gradients_are_late,
    node_raises,
    lose_cleanup,
    double_cleanup,
)
