"""The steps of contexts and passes, one function each.

A rule changes a context and says whether it could: what stands before its first assignment is its
guard. Nothing else changes a state.

What is abstracted:

- The nodes within a worker. Its recv functions are run when all send functions (and the root) that
  lead to them have their gradients; what lies between, and leaves, are run in no time, or fail.
- FAST mode: a part waits for all send functions that its worker has in the context as it begins,
  whether gradients will come for them or not. SMART mode, which PyTorch describes and has not
  built, would wait for those that the roots lead to; ``counted_smart`` says how.
- Calls, replies and gradients are taken up at most once, since agents let go of second copies. The
  release of a context is repeated until it has arrived.
- A pass has a number, which its gradients carry, and a worker knows which of two passes came first
  if one worker began them both. PyTorch's messages do not tell passes apart.
"""

from __future__ import annotations

from collections.abc import Callable

from squall.model.protocol.passes.faults import fail_part, hear_error, lose_send_function
from squall.model.protocol.passes.number_set import NONE, Numbers
from squall.model.protocol.passes.state import (
    BY_USER,
    UNMADE,
    Context,
    ContextStage,
    Gradients,
    Pair,
    Pass,
    Progress,
    Way,
    WorkerPass,
)

#: which send functions the part of a pass on a worker waits for
Counted = Callable[[Context, int, int], Numbers]

# -- what programs do ---------------------------------------------------------------------------


def open_context(context: Context, worker: int) -> bool:
    """``with dist_autograd.context()``."""
    if context.maker != UNMADE:
        return False
    context.maker = worker
    context.stages[worker] = ContextStage.LIVE
    return True


def call(context: Context, at: int, to: int, leads: Numbers) -> bool:
    """A call with tensors that require grad, computed from those of the pairs that it leads to. Its
    receiver has to hear of the release from now on."""
    return _send(context, Pair(at, to, leads, attached=True))


def reply(context: Context, at: int, to: int, leads: Numbers) -> bool:
    """A function returns such tensors to its caller."""
    return _send(context, Pair(at, to, leads, reply=True, attached=True))


def call_without_tensors(context: Context, at: int, to: int) -> bool:
    """Its receiver has to hear of the release; there is nothing to send gradients for."""
    return _send(context, Pair(at, to, joins=False))


def _send(context: Context, pair: Pair) -> bool:
    if context.stage(pair.at) is not ContextStage.LIVE:
        return False
    if not all(context.is_received(n, pair.at) for n in pair.leads):
        return False
    context.pairs.append(pair)
    return True


def begin(context: Context, worker: int, roots: Numbers, counted: Counted | None = None) -> bool:
    """``backward``: only one pass of a context runs on a worker."""
    if context.stage(worker) is not ContextStage.LIVE or context.running(worker) is not None:
        return False
    context.passes.append(Pass(worker, roots))
    _begin_part(context, len(context.passes) - 1, worker, BY_USER, counted)
    return True


def release(context: Context) -> bool:
    """The program leaves the context where it was made, once its own passes there are over."""
    if any(each.root == context.maker and each.runs for each in context.passes):
        return False
    return _release(context, context.maker)


def release_early(context: Context, worker: int) -> bool:
    """Another thread, or another worker, releases it, whatever runs."""
    return _release(context, worker)


# -- messages of the forward pass -----------------------------------------------------------------


def arrives(context: Context, number: int) -> bool:
    """A message is taken up in its context, which is made where it is not known. One that was
    released stays so: the message is then taken up without it."""
    pair = context.pairs[number]
    if pair.way is not Way.UNDER_WAY:
        return False
    pair.way = Way.ARRIVED
    if context.stage(pair.to) is not ContextStage.RELEASED:
        context.stages[pair.to] = ContextStage.LIVE
        pair.received = pair.joins
    return True


def call_fails(context: Context, number: int) -> bool:
    """A call that was lost is not answered in time: its caller has nothing that depends on it, and
    waits for no gradients of it."""
    pair = context.pairs[number]
    if pair.way is not Way.LOST or pair.reply or not pair.attached:
        return False
    lose_send_function(context, number)
    return True


# -- a pass ---------------------------------------------------------------------------------------


def gradients_leave(context: Context, number: int, pair: int) -> bool:
    """A recv function is run, after all that leads to it."""
    each = context.passes[number]
    worker = context.pairs[pair].to
    part = each.parts.get(worker)
    if part is None or part.progress is not Progress.RUNNING or pair in each.gradients:
        return False
    if context.stage(worker) is not ContextStage.LIVE:
        return False
    before = context.leading_to(pair) & part.counted
    is_of_roots = part.first == BY_USER and pair in each.roots
    if not (before or is_of_roots) or not before <= part.fed:
        return False
    each.gradients[pair] = Gradients.UNDER_WAY
    return True


def gradients_arrive(context: Context, number: int, pair: int) -> bool:
    """There has to be a context, and the send function."""
    each = context.passes[number]
    if each.gradients.get(pair) is not Gradients.UNDER_WAY:
        return False
    to = context.pairs[pair]
    there = context.stage(to.at) is ContextStage.LIVE and to.attached
    each.gradients[pair] = Gradients.TAKEN_UP if there else Gradients.REFUSED
    return True


def gradients_join(
    context: Context, number: int, pair: int, counted: Counted | None = None
) -> bool:
    """The first gradients of a pass begin the part of a worker, which ends another pass there, unless
    that was begun there. Later ones are answered at once: who sent the first waits already. Those of
    a pass that is over on the worker, or that a later one has followed, are refused."""
    each = context.passes[number]
    if each.gradients.get(pair) is not Gradients.TAKEN_UP:
        return False
    worker = context.pairs[pair].at
    part = each.parts.get(worker)
    if part is None and context.pairs[pair].attached:
        _gradients_begin(context, number, pair, worker, counted)
    elif part is not None and part.runs and pair in part.counted:
        each.gradients[pair] = Gradients.ANSWERED
        part.fed |= Numbers((pair,))
    else:
        each.gradients[pair] = Gradients.REFUSED
    return True


def _gradients_begin(
    context: Context, number: int, pair: int, worker: int, counted: Counted | None
) -> None:
    each = context.passes[number]
    latest = context.latest.get(worker)
    succeeded = latest is not None and latest > number and context.passes[latest].root == each.root
    running = context.running(worker)
    if succeeded or (running is not None and context.passes[running].root == worker):
        each.gradients[pair] = Gradients.REFUSED
        return
    if running is not None:
        _overtake(context, running, worker)
    _begin_part(context, number, worker, pair, counted)
    each.gradients[pair] = Gradients.WORKED_ON
    if context.stage(worker) is not ContextStage.LIVE:  # it was, when they arrived
        _give_up(context, number, worker)


def _overtake(context: Context, number: int, worker: int) -> None:
    each = context.passes[number]
    part = each.parts[worker]
    if part.progress is Progress.RUNNING and _is_run(context, each, part):
        part.progress = Progress.FOLLOWED
    else:
        _end(context, number, worker, Progress.FAILED)


def answer_arrives(context: Context, number: int, pair: int) -> bool:
    """Whoever sent gradients hears of them. An error ends its part, if that still runs."""
    each = context.passes[number]
    answer = each.gradients.get(pair)
    if answer is not Gradients.ANSWERED and answer is not Gradients.REFUSED:
        return False
    each.gradients[pair] = Gradients.HEARD
    if answer is Gradients.REFUSED:
        hear_error(context, number, pair)
    return True


def gradients_time_out(context: Context, number: int, pair: int) -> bool:
    """They, or the answer, were lost. Nothing is sent again."""
    each = context.passes[number]
    if each.gradients.get(pair) is not Gradients.LOST:
        return False
    each.gradients[pair] = Gradients.HEARD
    hear_error(context, number, pair)
    return True


def part_ends(context: Context, number: int, worker: int) -> bool:
    """All gradients have come that it waited for, and all that it sent on are answered. Who began it
    hears of that."""
    each = context.passes[number]
    part = each.parts.get(worker)
    if part is None or part.progress is not Progress.RUNNING or not _is_run(context, each, part):
        return False
    recvs = _recv_functions(context, each, part)
    if any(each.gradients[pair] is not Gradients.HEARD for pair in recvs):
        return False
    _end(context, number, worker, Progress.DONE)
    return True


def part_gives_up(context: Context, number: int, worker: int) -> bool:
    """It has failed. Who began it hears of that; nobody else does."""
    part = context.passes[number].parts.get(worker)
    if part is None or part.progress is not Progress.FAILING:
        return False
    _end(context, number, worker, Progress.FAILED)
    return True


def part_answers(context: Context, number: int, worker: int) -> bool:
    """A part that another pass ended as it waited for answers alone has all of them."""
    each = context.passes[number]
    part = each.parts.get(worker)
    if part is None or part.progress is not Progress.FOLLOWED:
        return False
    recvs = _recv_functions(context, each, part)
    waits = each.gradients[part.first] is Gradients.WORKED_ON
    if not waits or any(each.gradients[pair] is not Gradients.HEARD for pair in recvs):
        return False
    each.gradients[part.first] = Gradients.ANSWERED
    return True


def part_is_cut_off(context: Context, number: int, worker: int) -> bool:
    """Some node of a part was still at work when another pass ended it."""
    each = context.passes[number]
    part = each.parts.get(worker)
    if part is None or part.progress is not Progress.FOLLOWED:
        return False
    if each.gradients[part.first] is not Gradients.WORKED_ON:
        return False
    _end(context, number, worker, Progress.FAILED)
    return True


def counted_fast(context: Context, number: int, worker: int) -> Numbers:
    """The send functions that a part waits for: all that there are."""
    return Numbers(n for n, pair in enumerate(context.pairs) if pair.at == worker and pair.attached)


def counted_smart(context: Context, number: int, worker: int) -> Numbers:
    """Those of them that the roots of the pass lead to."""
    reached = context.reached(context.passes[number].roots)
    return counted_fast(context, number, worker) & reached


def _begin_part(
    context: Context, number: int, worker: int, first: int, counted: Counted | None
) -> None:
    part = WorkerPass((counted or counted_fast)(context, number, worker), first)
    part.fed = NONE if first == BY_USER else Numbers((first,))
    context.passes[number].parts[worker] = part
    context.latest[worker] = number


def _recv_functions(context: Context, each: Pass, part: WorkerPass) -> Numbers:
    """The pairs whose recv functions the part runs."""
    recvs = each.roots if part.first == BY_USER else NONE
    for number in part.counted:
        recvs |= context.pairs[number].leads
    return recvs


def _is_run(context: Context, each: Pass, part: WorkerPass) -> bool:
    """Whether nothing is left to be run, here; answers may be."""
    return part.fed == part.counted and _recv_functions(context, each, part) <= Numbers(
        each.gradients
    )


def _end(context: Context, number: int, worker: int, progress: Progress) -> None:
    each = context.passes[number]
    part = each.parts[worker]
    part.progress = progress
    if part.first != BY_USER and each.gradients[part.first] is Gradients.WORKED_ON:
        done = progress is Progress.DONE
        each.gradients[part.first] = Gradients.ANSWERED if done else Gradients.REFUSED


# -- the end of a context -------------------------------------------------------------------------


def cleanup_arrives(context: Context, by: int, to: int) -> bool:
    """A worker releases the context, and tells those that it knows. It remembers the id, also if it
    never had it."""
    if not context.cleanups.get((by, to)):
        return False
    _less(context, by, to)
    context.told |= {(by, to)}
    if context.stage(to) is ContextStage.ABSENT:
        context.stages[to] = ContextStage.RELEASED
    _release(context, to)
    return True


def repeat_cleanup(context: Context, by: int, to: int) -> bool:
    """It was lost."""
    if context.cleanups.get((by, to)) != 0 or (by, to) in context.told:
        return False
    context.cleanups[by, to] = 1
    return True


def _less(context: Context, by: int, to: int) -> None:
    context.cleanups[by, to] -= 1


def _release(context: Context, worker: int) -> bool:
    if context.stage(worker) is not ContextStage.LIVE:
        return False
    context.stages[worker] = ContextStage.RELEASED
    for known in sorted(context.known_to(worker)):
        context.cleanups[worker, known] = 1
    running = context.running(worker)
    if running is not None:
        _give_up(context, running, worker)
    return True


def _give_up(context: Context, number: int, worker: int) -> None:
    """The context is gone: a part that has still to send or get gradients has failed."""
    each = context.passes[number]
    part = each.parts[worker]
    if not _is_run(context, each, part):
        fail_part(part)
