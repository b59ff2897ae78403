"""Errors planted in the rules of contexts and passes: those that break an invariant, and those that
allow less than PyTorch's port does, which runs refute."""

from __future__ import annotations

from collections.abc import Callable

from squall.model.protocol.passes import rules as right
from squall.model.protocol.passes.number_set import NONE, Numbers
from squall.model.protocol.passes.rules import counted_fast
from squall.model.protocol.passes.state import (
    BY_USER,
    UNMADE,
    Context,
    ContextStage,
    Gradients,
    Pair,
    Pass,
    Way,
    WorkerPass,
)
from squall.model.protocol.passes.table import RULES, Rules


def but(**changed: Callable[..., bool]) -> Rules:
    """The rules, some of them otherwise."""
    return {
        name: rule._replace(apply=changed[name]) if name in changed else rule
        for name, rule in RULES.items()
    }


def never(*_: object) -> bool:
    return False


def without(name: str) -> Rules:
    return but(**{name: never})


def only_if(name: str, guard: Callable[..., bool]) -> Rules:
    """A rule with one more guard."""
    apply = RULES[name].apply

    def guarded(context: Context, *arguments: object) -> bool:
        return guard(context, *arguments) and apply(context, *arguments)

    return but(**{name: guarded})


def and_then(name: str, what: Callable[..., None]) -> Rules:
    """A rule that does something more."""
    apply = RULES[name].apply

    def more(context: Context, *arguments: object) -> bool:
        done: bool = apply(context, *arguments)
        if done:
            what(context, *arguments)
        return done

    return but(**{name: more})


def part_of(context: Context, number: int, worker: int) -> WorkerPass | None:
    return context.passes[number].parts.get(worker)


# -- parts ----------------------------------------------------------------------------------------


def ends_unfed(context: Context, number: int, worker: int) -> bool:
    part = part_of(context, number, worker)
    if part is not None and part.runs:
        part.counted, counted = part.fed, part.counted
        done = right.part_ends(context, number, worker)
        part.counted = counted
        return done
    return False


def ends_unanswered(context: Context, number: int, worker: int) -> bool:
    each = context.passes[number]
    waiting = {
        pair: gradients
        for pair, gradients in each.gradients.items()
        if context.pairs[pair].to == worker
    }
    each.gradients.update(dict.fromkeys(waiting, Gradients.HEARD))
    done = right.part_ends(context, number, worker)
    each.gradients.update(waiting)
    return done


def ends_in_silence(context: Context, number: int, worker: int) -> None:
    part = part_of(context, number, worker)
    assert part is not None
    if part.first != BY_USER:
        context.passes[number].gradients[part.first] = Gradients.WORKED_ON


def answered_at_once(context: Context, number: int, pair: int) -> None:
    gradients = context.passes[number].gradients
    if gradients[pair] is Gradients.WORKED_ON:
        gradients[pair] = Gradients.ANSWERED


def leave_early(context: Context, number: int, pair: int) -> bool:
    """Not all that leads to a recv function has come."""
    each = context.passes[number]
    part = each.parts.get(context.pairs[pair].to)
    if part is None or not part.runs:
        return False
    fed, part.fed = part.fed, part.counted
    done = right.gradients_leave(context, number, pair)
    part.fed = fed
    return done


def leave_again(context: Context, number: int, pair: int) -> bool:
    gradients = context.passes[number].gradients
    before = gradients.pop(pair, None)
    done = right.gradients_leave(context, number, pair)
    if not done and before is not None:
        gradients[pair] = before
    return done


def counts_none(context: Context, number: int, worker: int) -> Numbers:
    return NONE


def begin_counting_none(context: Context, worker: int, roots: Numbers) -> bool:
    return right.begin(context, worker, roots, counts_none)


def first_is_all(context: Context, number: int, pair: int) -> bool:
    """A part waits for nothing but the gradients that began it."""
    return right.gradients_join(context, number, pair, lambda *_: Numbers((pair,)))


def of_any_pass(context: Context, number: int, pair: int) -> bool:
    """Gradients go to whatever pass runs, as PyTorch's messages have it."""
    each = context.passes[number]
    worker = context.pairs[pair].at
    running = context.running(worker)
    if each.gradients.get(pair) is Gradients.TAKEN_UP and running not in (None, number):
        assert running is not None
        part = context.passes[running].parts[worker]
        if pair in part.counted:
            part.fed |= Numbers((pair,))
            each.gradients[pair] = Gradients.ANSWERED
            return True
    return right.gradients_join(context, number, pair)


def over_begins_again(context: Context, number: int, pair: int) -> bool:
    """A late gradient is taken for the first of a new pass."""
    each = context.passes[number]
    worker = context.pairs[pair].at
    part = each.parts.get(worker)
    if each.gradients.get(pair) is not Gradients.TAKEN_UP or part is None or part.runs:
        return right.gradients_join(context, number, pair)
    del each.parts[worker]
    return right.gradients_join(context, number, pair)


def beside_another(context: Context, number: int, pair: int) -> bool:
    """A pass begins on a worker beside the one that runs there."""
    each = context.passes[number]
    worker = context.pairs[pair].at
    if each.gradients.get(pair) is not Gradients.TAKEN_UP or worker in each.parts:
        return right.gradients_join(context, number, pair)
    each.parts[worker] = WorkerPass(counted_fast(context, number, worker), pair, Numbers((pair,)))
    each.gradients[pair] = Gradients.WORKED_ON
    return True


def begin_beside(context: Context, worker: int, roots: Numbers) -> bool:
    if context.stage(worker) is not ContextStage.LIVE:
        return False
    number = len(context.passes)
    part = WorkerPass(counted_fast(context, number, worker), BY_USER)
    context.passes.append(Pass(worker, roots, {worker: part}))
    return True


def error_is_no_error(context: Context, number: int, pair: int) -> bool:
    gradients = context.passes[number].gradients
    if gradients.get(pair) is Gradients.REFUSED:
        gradients[pair] = Gradients.ANSWERED
    return right.answer_arrives(context, number, pair)


def time_out_is_an_answer(context: Context, number: int, pair: int) -> bool:
    gradients = context.passes[number].gradients
    if gradients.get(pair) is not Gradients.LOST:
        return False
    gradients[pair] = Gradients.HEARD
    return True


# -- contexts -------------------------------------------------------------------------------------


def comes_back(context: Context, number: int) -> bool:
    pair = context.pairs[number]
    if pair.way is not Way.UNDER_WAY:
        return False
    pair.way = Way.ARRIVED
    pair.received = pair.joins
    context.stages[pair.to] = ContextStage.LIVE
    return True


def tells_nobody(context: Context, by: int, to: int) -> bool:
    before = set(context.cleanups)
    done = right.cleanup_arrives(context, by, to)
    for each in set(context.cleanups) - before:
        del context.cleanups[each]
    return done


def is_not_remembered(context: Context, by: int, to: int) -> bool:
    absent = context.stage(to) is ContextStage.ABSENT
    done = right.cleanup_arrives(context, by, to)
    if done and absent:
        del context.stages[to]
    return done


def release_leaves_passes(context: Context, by: int, to: int) -> bool:
    running = context.running(to)
    part = None if running is None else context.passes[running].parts[to]
    before = None if part is None else part.progress
    done = right.cleanup_arrives(context, by, to)
    if done and part is not None and before is not None:
        part.progress = before
    return done


def tells_callees(kind: Callable[[Pair], bool]) -> Callable[[Context], bool]:
    """Only receivers of some messages are told of the release."""

    def release(context: Context) -> bool:
        if context.maker == UNMADE or not right.release(context):
            return False
        told = {pair.to for pair in context.pairs if pair.at == context.maker and kind(pair)}
        for by, to in list(context.cleanups):
            if by == context.maker and to not in told:
                del context.cleanups[by, to]
        return True

    return release


#: each breaks an invariant
PLANTED: dict[str, Rules] = {
    "a part ends before its gradients have come": but(part_ends=ends_unfed),
    "a part ends before what it sent on is answered": but(part_ends=ends_unanswered),
    "a part that ends does not answer": and_then("part_ends", ends_in_silence),
    "a part that fails does not answer": and_then("part_gives_up", ends_in_silence),
    "a part that has failed goes on waiting": without("part_gives_up"),
    "the first gradients are answered at once": and_then("gradients_join", answered_at_once),
    "gradients leave before all has come that leads to them": but(gradients_leave=leave_early),
    "gradients leave again": but(gradients_leave=leave_again),
    "a root waits for no send functions": but(begin=begin_counting_none),
    "a part waits for its first gradients alone": but(gradients_join=first_is_all),
    "gradients are given to whatever pass runs": but(gradients_join=of_any_pass),
    "late gradients begin their pass again": but(gradients_join=over_begins_again),
    "a pass begins beside another that gradients began": but(gradients_join=beside_another),
    "a pass begins beside another of the user": but(begin=begin_beside),
    "an error is taken for an answer": but(answer_arrives=error_is_no_error),
    "a time-out is taken for an answer": but(gradients_time_out=time_out_is_an_answer),
    "gradients that were lost are waited for": without("gradients_time_out"),
    "a released context comes back with a message": but(arrives=comes_back),
    "a release is not passed on": but(cleanup_arrives=tells_nobody),
    "a release of what is not there is not remembered": but(cleanup_arrives=is_not_remembered),
    "a release leaves passes alone": but(cleanup_arrives=release_leaves_passes),
    "a release that was lost is not repeated": without("repeat_cleanup"),
    "callees without tensors do not hear of the release": but(
        release=tells_callees(lambda pair: pair.joins)
    ),
    "only callees with tensors that are used hear of the release": but(
        release=tells_callees(lambda pair: pair.attached)
    ),
}


def is_maker(context: Context, worker: int, *_: object) -> bool:
    return context.maker in (UNMADE, worker)


def no_second_pass(context: Context, *_: object) -> bool:
    return not context.passes


def all_answered(context: Context, number: int, pair: int) -> bool:
    """Only the first gradients of a worker are answered."""
    each = context.passes[number]
    part = each.parts.get(context.pairs[pair].at)
    return part is None or not part.runs


def all_sent(context: Context, worker: int, *_: object) -> bool:
    """A pass waits for what is on its way."""
    return all(pair.way is not Way.UNDER_WAY for pair in context.pairs if pair.joins)


def no_other(context: Context, number: int, pair: int) -> bool:
    return context.running(context.pairs[pair].at) in (None, number)


def in_order(context: Context, number: int, *_: object) -> bool:
    """Messages of a context arrive in the order in which they were sent."""
    return all(pair.way is not Way.UNDER_WAY or not pair.joins for pair in context.pairs[:number])


def last_answered(context: Context, number: int, pair: int) -> bool:
    """Answers come in the order of the pairs."""
    each = context.passes[number]
    later = (Gradients.ANSWERED, Gradients.WORKED_ON)
    return all(each.gradients.get(n) not in later for n in range(pair + 1, len(context.pairs)))


def nobody_runs(context: Context, by: int, to: int) -> bool:
    return context.running(to) is None


def is_live(context: Context, number: int, worker: int) -> bool:
    return context.stage(worker) is ContextStage.LIVE


def counts_smart(context: Context, number: int, pair: int) -> bool:
    return right.gradients_join(context, number, pair, right.counted_smart)


def begins_smart(context: Context, worker: int, roots: Numbers) -> bool:
    return right.begin(context, worker, roots, right.counted_smart)


def no_leaf_only(context: Context, number: int, worker: int) -> bool:
    """A part that sends nothing on ends as well."""
    each = context.passes[number]
    part = each.parts.get(worker)
    if part is None:
        return False
    return any(context.pairs[n].to == worker for n in each.gradients)


def is_root(context: Context, number: int, worker: int) -> bool:
    return context.passes[number].root == worker


def late_only(*arrived: Way) -> Callable[..., bool]:
    def guard(context: Context, number: int) -> bool:
        return context.pairs[number].way in arrived

    return guard


def answers_while(*gradients: Gradients) -> Callable[..., bool]:
    def guard(context: Context, number: int, pair: int) -> bool:
        return context.passes[number].gradients.get(pair) not in gradients

    return guard


def once(context: Context, by: int, to: int) -> bool:
    return (by, to) not in context.told


def was_there(context: Context, by: int, to: int) -> bool:
    return context.stage(to) is not ContextStage.ABSENT


#: each allows too little
TOO_STRICT: dict[str, Rules] = {
    "a pass begins where its context was made": only_if("begin", is_maker),
    "a context has one pass": only_if("begin", no_second_pass),
    "a pass begins when all messages have arrived": only_if("begin", all_sent),
    "messages arrive in the order in which they were sent": only_if("arrives", in_order),
    "only the first gradients of a worker are taken": only_if("gradients_join", all_answered),
    "a pass does not end another": only_if("gradients_join", no_other),
    "answers come in order": only_if("answer_arrives", last_answered),
    "a release waits for passes": only_if("cleanup_arrives", nobody_runs),
    "a release comes once": only_if("cleanup_arrives", once),
    "a release comes where the context is": only_if("cleanup_arrives", was_there),
    "a part of a released context cannot end": only_if("part_ends", is_live),
    "nodes of the root alone fail": only_if("node_raises", is_root),
    "a part ends that has sent something on": only_if("part_ends", no_leaf_only),
    "calls fail before they arrive alone": only_if("call_is_late", late_only(Way.UNDER_WAY)),
    "calls fail after they arrived alone": only_if("call_is_late", late_only(Way.ARRIVED)),
    "a worker waits for what its roots lead to": but(
        begin=begins_smart, gradients_join=counts_smart
    ),
    "nothing that was announced is taken back": but(take_back=never),
}
