"""Rules about what is left when all is over: counters of torch's workers, and hangs."""

from __future__ import annotations

from squall.model.program.acts.act import every
from squall.sim.diff.case import Case, Predicts
from squall.sim.diff.difference import Difference
from squall.sim.diff.facts import CALLS, value_of

_PASSES, _CONTEXTS = "num_current_backward_passes", "num_autograd_contexts"
_REFERENCES = ("num_owner_rrefs", "num_forks")
_BACKWARD, _FORWARD = "BACKWARD_AUTOGRAD_REQ", "FORWARD_AUTOGRAD_REQ"
_RELEASE = "CLEANUP_AUTOGRAD_CONTEXT_REQ"
#: what runs a pass on the owner of its root
_BY_REFERENCE = "RREF_BACKWARD_REQ"
#: calls in a context, which may be profiled
_CALLED = (_FORWARD, "RUN_WITH_PROFILING_REQ")
#: stories that leave one reference, by its owner: the worker that they are about, or their own
_LOST = {"unwritable": "home", "unreadable argument": "to"}
#: references that the story "proxies" has, and requests for a type that it does not wait for
_OF_PROXIES, _ASKED = 5, 2
_LATE = {"late reference": "to", "late creation": "to"}


def _pass_left_behind(case: Case, difference: Difference) -> bool:
    """A worker stays in as many passes as gradients that it was sent are never answered for."""
    kind = difference.place[0]
    if not case.anything_fails:
        return False
    if kind == "left" and difference.place[2] == _PASSES:
        worker = difference.place[1]
        own = sum(case.home(key) == worker for key in case.keys if case.waits(key[0]))
        asked = case.unanswered(worker, _BACKWARD) + case.unanswered(worker, _BY_REFERENCE)
        waited = asked + _called(case, worker)
        return bool(waited <= difference.theirs <= waited + own)
    if kind == "unanswered" and difference.place[1] == _BACKWARD:
        left = case.left(difference.place[2], _PASSES)
        return bool(0 < difference.theirs <= left)
    if kind == "unanswered" and difference.place[1] == _BY_REFERENCE:
        return bool(0 < difference.theirs <= case.left(difference.place[2], _PASSES))
    if kind == "unanswered" and difference.place[1] in _CALLED:
        called = _called(case, difference.place[2])
        return bool(0 < difference.theirs <= called <= case.left(difference.place[2], _PASSES))
    # A function that still runs keeps its worker.
    return kind == "hang" and any(
        0
        < _called(case, worker) + case.unanswered(worker, _BY_REFERENCE)
        <= case.left(worker, _PASSES)
        for worker in _workers(case)
    )


def _called(case: Case, worker: int) -> int:
    """Passes that a call on this worker runs, and that do not end."""
    calls = sum(case.unanswered(worker, type) for type in _CALLED)
    return min(calls, _passes_by_call(case, worker))


def _passes_by_call(case: Case, worker: int) -> int:
    """Passes that a call on this worker runs."""
    return sum(
        backward.where == "udf" and backward.worker == worker
        for key in case.keys
        for backward in case.step(key).backwards
    )


def _outlived_context(case: Case, difference: Difference) -> bool:
    """The answer to a call of a pass that failed comes when its context is gone: its callback locks
    freed memory, which raises or never ends, and the call stays counted; whoever shuts down waits
    for it."""
    kind = difference.place[0]
    if kind == "torn":
        return case.trace("late", difference.place[1]) > 0
    if kind == "left" and difference.place[2] == CALLS:
        late = case.trace("late", difference.place[1])
        return bool(0 < difference.theirs <= late) and not case.ends
    return kind == "hang" and any(
        0 < case.left(worker, CALLS) <= case.trace("late", worker) for worker in _workers(case)
    )


def _kept_frames(case: Case, difference: Difference) -> bool:
    """Calls by ``rpc_async()`` of a helper fail, and the futures keep the frames that waited for
    them, and all references there."""
    kept = dict.fromkeys(_workers(case), 0)
    for home, story in case.stories:
        if story.kind == "proxies" and story.worker != home:
            kept[story.worker] += _OF_PROXIES
    for act in case.acts:
        if act.kind == "created":
            kept[act.worker] += any(a.kind == "asked" and a.how == "async" for a in every(act.then))
    return difference.place[0] != "hang" and _left_at(case, difference, kept)


def _late_creations(case: Case, difference: Difference) -> bool:
    """A creation among acts takes longer than its limit."""
    late = dict.fromkeys(_workers(case), 0)
    for act in case.acts:
        late[act.worker] += act.kind == "created" and bool(act.limit_s)
    return _left_at(case, difference, late)


def _left_at(case: Case, difference: Difference, most: dict[int, int]) -> bool:
    """Whether it is that references are left at their owners, so many at most, or that a shutdown
    waits for them."""
    kind = difference.place[0]
    if kind == "hang":
        return any(case.left(worker, _REFERENCES[0]) for worker, many in most.items() if many)
    if kind != "left" or difference.place[2] not in _REFERENCES:
        return False
    worker = difference.place[1]
    return 0 < difference.theirs <= most[worker] and _as_many_forks(case, worker)


def _deleted_in_use(case: Case, difference: Difference) -> bool:
    """A worker that shuts down has deleted a reference of which a function waits for the value."""
    if not case.early:
        return False
    asked = sum(_ASKED for _, story in case.stories if story.kind == "proxies")
    asked += sum(act.kind == "asked" for act in case.acts) + sum(map(case.by_proxy, case.keys))
    if difference.place[0] == "hang":
        return asked > 0 and "_rref_typeof_on_owner" in difference.theirs
    if difference.place[0] == "left" and difference.place[2] == CALLS:
        return 0 < difference.theirs <= asked and not case.ends
    return difference.place[:2] in (("unanswered", "CALL"), ("unanswered", _FORWARD)) and (
        0 < difference.theirs <= asked and not case.ends
    )


def _owners(case: Case, stories: dict[str, str]) -> list[int]:
    """Where each of these stories leaves a reference."""
    return [
        home if stories[story.kind] == "home" else story.worker
        for home, story in case.stories
        if story.kind in stories
    ]


def _references(stories: dict[str, str]) -> Predicts:
    def predicts(case: Case, difference: Difference) -> bool:
        owners = _owners(case, stories)
        if difference.place[0] == "hang":
            return any(case.left(worker, _REFERENCES[0]) for worker in owners)
        if difference.place[0] != "left" or difference.place[2] not in _REFERENCES:
            return False
        if case.ends and not case.dies:
            return False  # whoever shuts down waits for what is left
        worker = difference.place[1]
        if worker not in owners:
            return False
        most = _owners(case, {**_LOST, **_LATE}).count(worker)  # both kinds may meet there
        return 0 < difference.theirs <= most and _as_many_forks(case, worker)

    return predicts


def _as_many_forks(case: Case, worker: int) -> bool:
    """What is left of a reference is its owner, and the one fork of it."""
    return len({case.left(worker, name) for name in _REFERENCES}) == 1


def _never_ended(case: Case, difference: Difference) -> bool:
    """A step that waits for ever on torch alone keeps its context on all workers, and its trainer its
    references; where both wait, torch may keep more of them, in cycles."""
    kind, endless = difference.place[0], len(case.without_end)
    if difference.place[:2] == ("requests", "RREF_USER_DELETE") and not case.ends:
        return bool(0 < difference.ours - difference.theirs <= case.more_forks)
    if kind == "left" and difference.place[2] in _REFERENCES and not case.ends:
        worker = difference.place[1]
        owners, forks = (case.left(worker, name) for name in _REFERENCES)
        if case.waiting_trainers:
            return bool(0 < owners <= forks <= owners + _handed_on(case))
        ours = [value_of(case.port, ("left", worker, name)) for name in _REFERENCES]
        waiting = [t for t in range(len(case.program.trainers)) if case.waits(t)]
        more, shared = owners - ours[0], _shared_by_updates(case, waiting, worker)
        return bool(waiting and 0 < more <= forks - ours[1] <= more + shared)
    if not case.waiting_trainers:
        return False
    if kind in ("requests", "unanswered") and difference.place[1] == _RELEASE:
        return bool(0 < difference.ours - difference.theirs <= case.program.workers * endless)
    if kind == "left" and difference.place[2] in (_CONTEXTS, _PASSES):
        return bool(0 < difference.theirs <= endless)
    return bool(kind == "hang")


def _handed_on(case: Case) -> int:
    """How often steps of trainers that wait hand on a reference, which makes a fork of it."""
    steps = [s for trainer in case.waiting_trainers for s in case.program.trainers[trainer].steps]
    inputs = sum(input.how != "value" for s in steps for op in s.ops for input in op.inputs)
    chains = sum(len(chain.links) + len(chain.readers) for s in steps for chain in s.chains)
    calls = sum(op.call != "local" for s in steps for op in s.ops)
    return inputs + chains + calls


def _shared_by_updates(case: Case, waiting: list[int], owner: int) -> int:
    """How often updates of these trainers that raise hand on references of a worker: the frames of what is raised keep
    all that are passed to whoever updates, each in a cycle, until somebody collects it."""
    return sum(
        len(u.trainers) * (u.owners.count(owner) + (u.worker == owner) + u.shared)
        for trainer in waiting
        for step in case.program.trainers[trainer].steps
        for u in step.updates
        if u.fails
    )


def _context_came_back(case: Case, difference: Difference) -> bool:
    """A call that is handled after the release makes the context anew, which stays if the clean-up has come before."""
    if difference.place[0] != "left" or difference.place[2] != _CONTEXTS:
        return False
    most = case.trace("revived", difference.place[1])
    return bool(difference.theirs <= most and difference.ours - difference.theirs <= most)


def _acts_out_of_time(case: Case, difference: Difference) -> bool:
    """A context that a call makes whose caller has given up, as the group ends."""
    if not case.early or difference.place[0] != "left" or difference.place[2] != _CONTEXTS:
        return False
    inside = [
        inner
        for act in case.acts
        if act.limit_s
        for inner in every(act.acts)
        if inner.kind == "context"
    ]
    return bool(0 < difference.theirs <= len(inside))


def _home_before_creation(case: Case, difference: Difference) -> bool:
    """Acts pass a reference on to its owner, perhaps before the owner has made its value; nobody
    need wait for the function that waits there, and what it was to do is not done."""
    home = [
        inner
        for act in case.acts
        if act.kind == "created"
        for inner in every(act.then)
        if inner.kind == "passed on" and inner.worker == act.worker
    ]
    if case.ends:
        return False
    ops = sum(len(case.step(key).ops) for key in case.keys if case.comes_home(key))
    waiting = sum(case.unanswered(worker, _FORWARD) for worker in _workers(case))
    if difference.place[:2] == ("unanswered", _FORWARD):
        return bool(0 < difference.theirs <= ops)
    if difference.place[0] == "hang" and 0 < waiting <= ops:
        return True
    if not home or not any(case.unanswered(each, "CALL") for each in _workers(case)):
        return False
    if difference.place[:2] == ("requests", "CALL"):
        inside = sum(len(list(every(inner.acts))) for inner in home)
        return bool(0 < difference.ours - difference.theirs <= inside)
    if difference.place[:2] == ("unanswered", "CALL"):
        return bool(0 < difference.theirs <= len(home))
    return bool(difference.place[0] == "hang")


def _fork_after_delete(case: Case, difference: Difference) -> bool:
    """A request to enter a fork that comes twice, the second time after the deletion, is entered."""
    kind = difference.place[0]
    if kind == "replies":
        doubled = sum(case.trace("doubled", worker) for worker in _workers(case))
        return difference.place[1] == "RREF_ACK" and bool(0 < difference.theirs <= doubled)
    if kind != "left" or difference.place[2] != "num_forks":
        return False
    return bool(0 < difference.theirs <= case.trace("doubled", difference.place[1]))


def _unsent_argument(case: Case, difference: Difference) -> bool:
    """What a call that could not be sent had as arguments stays, a fork of it and its owner; and
    whoever shuts down waits for it."""
    kind, unsent = difference.place[0], case.trace("unsent")
    if kind == "left" and difference.place[2] in _REFERENCES:
        few = bool(0 < difference.theirs <= unsent) and not case.ends
        return few and _as_many_forks(case, difference.place[1])
    return kind == "hang" and any(
        0 < case.left(worker, _REFERENCES[0]) <= unsent for worker in _workers(case)
    )


def _workers(case: Case) -> range:
    return range(case.program.workers)


LEFT_RULES = (
    ("reference-lost-with-its-message", _references(_LOST)),
    ("late-reference-leaks", _references(_LATE)),
    ("failed-future-keeps-frames", _kept_frames),
    ("late-creation-leaks", _late_creations),
    ("shutdown-deletes-references-in-use", _deleted_in_use),
    ("pass-left-behind", _pass_left_behind),
    ("outstanding-call-outlives-context", _outlived_context),
    ("step-never-ends", _never_ended),
    ("context-came-back", _context_came_back),
    ("acts-out-of-time", _acts_out_of_time),
    ("home-before-creation", _home_before_creation),
    ("fork-after-delete", _fork_after_delete),
    ("unsent-argument-leaks", _unsent_argument),
)
