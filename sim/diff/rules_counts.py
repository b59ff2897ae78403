"""Rules about numbers of messages: which types may differ, and by how many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from squall.model.one_process.flow import forecast
from squall.model.program.acts.act import every
from squall.model.program.program import Op
from squall.model.program.stories import Story
from squall.sim.diff.case import Case, Key
from squall.sim.diff.difference import Difference
from squall.sim.diff.facts import A_VALUE, NO_END, Facts, value_of

_BACKWARD, _FORWARD = "BACKWARD_AUTOGRAD_REQ", "FORWARD_AUTOGRAD_REQ"
_CLEANUP, _ANY = "CLEANUP_AUTOGRAD_CONTEXT_REQ", ""
_PROFILED = "RUN_WITH_PROFILING_REQ"
#: what a call is, in a profile of its caller or not: torch's trace does not say what is profiled
_CALLS = ("CALL", "REMOTE_CALL", _FORWARD, _PROFILED)
#: acts that take time
_TAKING = ("wait", "later")
#: what a step of an optimizer calls, on each owner of its parameters
_OF_UPDATES = ("CALL", "REMOTE_CALL", "RREF_FETCH_CALL", "RREF_CHILD_ACCEPT", "RREF_USER_DELETE")
#: by how much torch's number may differ from the port's: (kind, type) to (least, most)
Range = tuple[tuple[str, str], tuple[int, int]]
_PASS_OF_A_STORY: tuple[Range, ...] = (
    (("requests", _BACKWARD), (0, 1)),
    (("refused", _BACKWARD), (-1, 2)),
)
#: what each story that something fails in may do to the numbers
_BY_STORY: dict[str, tuple[Range, ...]] = {
    "failed pass again": _PASS_OF_A_STORY,
    "overtaken pass": (*_PASS_OF_A_STORY, (("requests", _BACKWARD), (-1, -1))),
    "second pass": _PASS_OF_A_STORY,
    # It has three messages with gradients, of which one has been sent when the context is released.
    "released by a hook": (*_PASS_OF_A_STORY, (("requests", _BACKWARD), (0, 1))),
    "released meanwhile": _PASS_OF_A_STORY,
    "stop at an error": _PASS_OF_A_STORY,
    "tensor of a released context": (
        (("requests", _BACKWARD), (-1, -1)),
        (("refused", _BACKWARD), (-1, -1)),
    ),
    # A function of TorchScript is called by its name, which the callee does not know.
    "operators": ((("requests", "CALL"), (1, 1)), (("refused", "CALL"), (1, 1))),
    # A fork that is never deleted, or never accepted.
    "late reference": ((("requests", "RREF_USER_DELETE"), (-1, -1)),),
    "late creation": ((("requests", "RREF_USER_DELETE"), (-1, -1)),),
    "unreadable argument": ((("requests", "RREF_CHILD_ACCEPT"), (-1, -1)),),
    "unwritable": ((("requests", "RREF_USER_DELETE"), (-1, -1)),),
}


def _of_story(story: Story) -> tuple[Range, ...]:
    """What the failure of a story may do to the numbers."""
    ranges = _BY_STORY.get(story.kind, ())
    if story.kind == "tensor of a released context" and not any(story.numbers[:1]):
        # Its root is a sum: the other summand may have been sent for when the one of the released context
        # fails the pass, and that worker may have sent what it sends back.
        return 2 * ranges
    return ranges


def _more(difference: Difference) -> int:
    more: int = difference.theirs - difference.ours
    return more


def _within(difference: Difference, ranges: Iterable[Range]) -> bool:
    """Whether the difference is as much as some of these allow, all together."""
    kind = difference.place[0]
    type = _ANY if kind == "wrapped" else difference.place[1]
    matching = [range for where, range in ranges if where == (kind, type)]
    least = sum(min(0, low) for low, _ in matching)
    most = sum(max(0, high) for _, high in matching)
    return bool(matching) and least <= _more(difference) <= most


def _messages(op: Op) -> int:
    """Messages of a call at most: itself, and fetches of what it is given, there or before."""
    return 1 + len(op.inputs)


# -- faults ---------------------------------------------------------------------------------------


def _revived(case: Case) -> int:
    """Contexts that answers have made anew."""
    return sum(case.trace("revived", worker) for worker in range(case.program.workers))


def _refused_there(case: Case) -> Iterator[Range]:
    """What is called in such a context may fail, as it does outside of one."""
    late = _revived(case)
    yield ("refused", "CALL"), (-late, -1)
    yield ("refused", _FORWARD), (1, late)


def _context_came_back(case: Case, difference: Difference) -> bool:
    """An answer that is recorded in a context which has been released, and what is called there."""
    late = _revived(case)
    ranges: list[Range] = [
        (("wrapped", _ANY), (1, late)),
        (("requests", "CALL"), (-late, -1)),
        (("requests", "RREF_FETCH_CALL"), (-late, -1)),
        (("requests", _FORWARD), (1, late)),
        (("requests", "RREF_USER_DELETE"), (1, late)),
        *_refused_there(case),
    ]
    told = [("wrapped", difference.step), ("requests", _FORWARD, difference.step)]
    more = any(value_of(case.torch, place) > value_of(case.port, place) for place in told)
    if difference.step is None or more or _ends_on_torch(case, difference.step):
        ranges.append((("requests", _CLEANUP), (1, late)))
    return late > 0 and difference.kind == "messages" and _within(difference, ranges)


def _ends_on_torch(case: Case, key: Key) -> bool:
    """Whether a step fails on torch alone: it then has fewer answers, also if some come too late."""
    ours, theirs = (value_of(facts, ("outcome", *key)) for facts in (case.port, case.torch))
    return bool(ours == A_VALUE and theirs not in (A_VALUE, NO_END))


def _unsent_argument(case: Case, difference: Difference) -> bool:
    """The fork in a call that was not sent is not deleted, and its callee is told of the release."""
    unsent = case.trace("unsent")
    return difference.kind == "messages" and _within(
        difference,
        [(("requests", "RREF_USER_DELETE"), (-unsent, -1)), (("requests", _CLEANUP), (1, unsent))],
    )


def _creation_never_comes(case: Case, difference: Difference) -> bool:
    """Whoever asks for a value that was never made waits; on the port it is told so in the end."""
    lost = case.trace("lost call")
    return difference.kind == "messages" and _within(
        difference, [(("refused", _FORWARD), (-lost, -1)), (("unanswered", _FORWARD), (1, lost))]
    )


def _acts_out_of_time(case: Case, difference: Difference) -> bool:
    """What is done within a call whose caller has given up, as the group ends: who is first decides
    which calls are made and refused."""
    if not case.early:
        return False
    late = 0
    for act in case.acts:
        inside = list(every(act.acts))
        if act.limit_s and (act.kind == "later" or any(a.kind in _TAKING for a in inside)):
            late += len(inside)
    types = ["CALL", "REMOTE_CALL", "RREF_FETCH_CALL", "RREF_FORK_REQUEST", "RREF_USER_DELETE"]
    if any(act.kind == "context" for act in case.acts):
        types += [_FORWARD, _CLEANUP]
    ranges: list[Range] = [(("requests", type), (-late, 0)) for type in types]
    ranges.append((("unanswered", "CALL"), (0, late)))
    missing = max(0, case.requests("CALL") + case.requests("REMOTE_CALL"))
    ranges.append((("requests", "RREF_CHILD_ACCEPT"), (-min(late, missing), 0)))
    ranges += [(("refused", type), (-late, late)) for type in ("CALL", _FORWARD)]
    return difference.kind == "messages" and _within(difference, ranges)


# -- profiles -------------------------------------------------------------------------------------


def _profiled_or_not(case: Case, difference: Difference) -> bool:
    """A worker profiles all that it does: what comes at the instant at which that begins or ends is in the
    profile, or not. What such a request calls is profiled, or not: as many calls as without quirks, of another
    type. Where fewer are in torch, none of them may meet another profile: then all is as without quirks."""
    if not any(story.kind == "server profiles" for _, story in case.stories):
        return False
    if case.more("requests", _PROFILED) == 0:
        return False
    kind, *rest = difference.place
    if kind in ("requests", "refused") and rest[0] in _CALLS:
        return sum(case.more(kind, type) for type in _CALLS) == 0
    refused = ("refused", _PROFILED)
    met = difference.place in case.without and case.more("requests", _PROFILED) < 0
    return (
        met
        and value_of(case.torch, refused) < value_of(case.port, refused)
        and bool(difference.theirs == case.without[difference.place])
    )


# -- failures -------------------------------------------------------------------------------------


def _after_a_failure(case: Case, difference: Difference) -> bool:
    """How far others get after a failure is a matter of who is first: gradients that were sent,
    and how they were answered; and torch tells fewer workers of the release, or retries."""
    if difference.kind != "messages":
        return False
    key = difference.step
    keys = case.keys if key is None else [key]
    ranges = [range for each in keys for range in _of_failing(case, each)]
    if key is None:
        ranges += [range for _, story in case.stories for range in _of_story(story)]
        ranges += _refused_there(case) if _revived(case) else ()
        of_context = difference.place[0] == "wrapped" or difference.place[1] in (
            _BACKWARD,
            _FORWARD,
            _CLEANUP,
        )
        if (
            (case.dies or _retries(case))
            and of_context
            and (difference.place[0] in ("requests", "wrapped"))
        ):
            # Of the context of an attempt that only one engine made, or of a process that died.
            rest = list(difference.place[1:])
            return bool(difference.theirs <= max(_sent(case.port, rest), _sent(case.torch, rest)))
    return _within(difference, ranges)


def _of_failing(case: Case, key: Key) -> Iterator[Range]:
    """What a failure of a step may do to the numbers."""
    step, workers = case.step(key), case.program.workers
    faults = [op.fault for op in step.ops if op.fault is not None]
    ends = [value_of(facts, ("outcome", *key)) for facts in (case.port, case.torch)]
    #: a step that waits on both engines is no failure of one
    both = bool(forecast(case.program, *key).unfed) or ends == [NO_END, NO_END]
    waits = both or NO_END in ends
    if not faults and (both or all(end == A_VALUE for end in ends)):
        return
    yield ("requests", _CLEANUP), (-workers, -1)
    yield ("unanswered", _BACKWARD), (-workers, -1)
    first = [value_of(facts, ("first error", *key)) for facts in (case.port, case.torch)]
    if step.retry and first[0] != first[1]:  # an attempt that only one engine makes
        again = sum(map(_messages, step.ops))
        for type in ("REMOTE_CALL", "RREF_CHILD_ACCEPT", "RREF_FORK_REQUEST", "RREF_USER_DELETE"):
            yield ("requests", type), (0, again)
    sent = value_of(case.port, ("requests", _BACKWARD, key))
    gradients = max(case.gradient_messages(key), sent)
    if waits or any(fault != "udf" for fault in faults):
        # At most all that the pass would send if nothing failed.
        yield ("requests", _BACKWARD), (-gradients, gradients - sent)
        # The port refuses each of them that comes when the pass is over.
        more = max(0, -case.requests(_BACKWARD))  # of those that torch alone has sent
        # or that came when it had released their context
        more += sum(case.trace("late", worker) for worker in range(workers))
        yield ("refused", _BACKWARD), (-gradients, max(2, workers, len(faults)) + more)

    if ends[1] not in (A_VALUE, NO_END):
        through = max(len(op.via) for op in step.ops)  # and the workers that the call came by
        yield ("refused", _FORWARD), (0, (1 + step.retry) * (1 + through))
    if waits:
        yield ("unanswered", _FORWARD), (1, 1)
        yield ("wrapped", _ANY), (1, 1)
    if "udf" in faults:
        yield ("requests", _FORWARD), (-1, 0)
        yield ("requests", "RREF_BACKWARD_REQ"), (-1, 0)
        yield ("wrapped", _ANY), (-1, 1)
        yield ("refused", "RREF_FETCH_CALL"), (-1, 0)
        yield ("requests", "RREF_CHILD_ACCEPT"), (-1, 0)


def _other_update_fails(case: Case, difference: Difference) -> bool:
    """Of trainers that share an optimizer whose second step raises, another one makes that step, and
    leaves out what would have followed."""
    fails = sum(
        len(set(each.owners))
        for _, _, step in case.program.steps
        for each in step.updates
        if each.fails and each.shared and len(set(each.trainers)) > 1
    )
    ranges = [(("requests", type), (-fails, fails)) for type in _OF_UPDATES]
    return difference.kind == "messages" and _within(difference, ranges)


def _retries(case: Case) -> bool:
    return any(step.retry for _, _, step in case.program.steps)


def _sent(facts: Facts, rest: list[Any]) -> int:
    """How many requests of a type an engine sent, in whatever step; all, of answers."""
    return sum(
        count
        for place, count in facts.items()
        if place[0] == "requests" and (not rest or rest[0] is None or place[1] == rest[0])
    )


COUNT_RULES = (
    ("context-came-back", _context_came_back),
    ("unsent-argument-leaks", _unsent_argument),
    ("creation-never-comes", _creation_never_comes),
    ("acts-out-of-time", _acts_out_of_time),
    ("another-error-first", _other_update_fails),
    ("profiled-or-not", _profiled_or_not),
    ("counts-after-a-failure", _after_a_failure),
)
