"""A story about what is under way as a worker leaves its group: calls that it serves and makes,
creations, references that are kept, an autograd context."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from squall.model.program.stories import stories_of
from squall.real.autograd import api as autograd
from squall.real.future import Future
from squall.real.rpc import api as rpc
from squall.real.rpc.init import _get_debug_info
from squall.real.rpc.message import Message
from squall.real.rpc.message_type import MessageType
from squall.real.rpc.wire_names import label_module
from squall.real.runtime import current_task
from squall.real.worker import current_worker
from squall.sim.programs.stories.api import told
from squall.sim.programs.stories.calls import error_of, sleep, slow
from squall.sim.programs.stories.own_process import (
    OWN_AGENTS,
    Visitor,
    all_do,
    all_enter,
    network_beside,
    not_empty,
)
from squall.sim.world.network import Network

label_module(__name__, "loose")
story = stories_of(__name__, rank=110)

_NAMES = ("one", "another", "third")
#: virtual seconds by which all has ended that was under way, when the slowest function is done
_PROMPT_S = 20.0
#: virtual seconds in which all hear of a release who are there, and one who is not is tried again
_RETRIED_S = 5.0
#: and by which all see that a connection was closed
_SEEN_S = 0.5
#: where a process keeps references, also beyond its group
_KEPT = "references that outlast a group"
#: what the functions give that are called
_VALUE = 7


# -- what is called -------------------------------------------------------------------------------


def slow_reference(seconds: float) -> Any:
    sleep(seconds)
    return rpc.RRef(_VALUE)


def reads(reference: Any) -> Any:
    """Wait for a value on the worker that is to have it."""
    return reference.local_value()


def fetches(reference: Any) -> Any:
    return reference.to_here()


def passes_on(x: Tensor, to: int) -> Tensor:
    """Send a tensor on, in the context that it came in."""
    there: Tensor = rpc.rpc_sync(to, torch.mul, args=(x, x))
    return there + x


# -- what is begun --------------------------------------------------------------------------------


class _Places(NamedTuple):
    """Who leaves, who has to do with it, who else there is: numbers of workers. And the seconds that
    functions take."""

    leaves: int
    stays: int
    third: int
    seconds: float


def _keep(reference: Any) -> Any:
    current_worker().locals.setdefault(_KEPT, []).append(reference)
    return reference


def _served(at: _Places) -> Any:
    return rpc.rpc_sync(at.leaves, slow, args=(_VALUE, at.seconds))


def _serves_a_reference(at: _Places) -> Any:
    rpc.rpc_sync(at.leaves, slow_reference, args=(at.seconds,))
    return _VALUE


def _created(at: _Places) -> Any:
    _keep(rpc.remote(at.leaves, slow, args=(_VALUE, at.seconds)))
    return _VALUE


def _read_at_home(at: _Places) -> Any:
    reference = rpc.remote(at.leaves, slow, args=(_VALUE, at.seconds))
    return rpc.rpc_sync(at.leaves, reads, args=(reference,))


def _fetched_elsewhere(at: _Places) -> Any:
    reference = rpc.remote(at.leaves, slow, args=(_VALUE, at.seconds))
    return rpc.rpc_sync(at.third, fetches, args=(reference,))


def _made(at: _Places) -> Any:
    return rpc.rpc_sync(at.stays, slow, args=(_VALUE, at.seconds))


def _creates(at: _Places) -> Any:
    _keep(rpc.remote(at.stays, slow, args=(_VALUE, at.seconds)))
    return _VALUE


def _creates_for_itself(at: _Places) -> Any:
    return rpc.remote(at.leaves, slow, args=(_VALUE, at.seconds)).to_here()


def _holds(at: _Places) -> Any:
    _keep(rpc.remote(at.leaves, slow, args=(_VALUE, 0.0)))
    return _VALUE


def _gives_up(at: _Places) -> Any:
    _keep(rpc.remote(at.leaves, slow, args=(_VALUE, at.seconds), timeout=at.seconds / 4))
    return _VALUE


#: what may be under way: whether it is begun on the worker that leaves, or on the one that stays
_LOOSE: tuple[tuple[bool, Callable[[_Places], Any]], ...] = (
    (False, _served),
    (False, _serves_a_reference),
    (False, _created),
    (False, _read_at_home),
    (False, _fetched_elsewhere),
    (True, _made),
    (True, _creates),
    (True, _creates_for_itself),
    (False, _gives_up),
    (False, _holds),
)


def _passed_context(at: _Places) -> int:
    """A context that has gone on from one worker to the next, and that nobody has released."""
    context_id = autograd._new_context()._context_id()
    x = torch.ones(2, requires_grad=True)
    rpc.rpc_sync(at.leaves, passes_on, args=(x, at.third))
    current_task().autograd_context_id = -1
    return context_id


class _Releases:
    """Counts, by sender and receiver, how often the release of a context is sent to those who are
    there: to the worker that ``leaves`` copies may be sent."""

    def __init__(self, leaves: int) -> None:
        self._leaves = leaves
        self.sent: Counter[tuple[int, int]] = Counter()

    def __call__(self, message: Message) -> None:
        about = message.type is MessageType.CLEANUP_AUTOGRAD_CONTEXT_REQ
        if about and message.dst != self._leaves:
            self.sent[message.src, message.dst] += 1


# -- the story ------------------------------------------------------------------------------------


@story(
    "loose ends",
    numbers={
        "loose": (0, 2 ** len(_LOOSE) - 1),
        "graceful": (0, 1),
        "when": (0, 3),
        "turn": (0, 5),
        "threads": (1, 4),
        "context": (0, 2),
        "again": (0, 1),
        "comes_back": (0, 1),
        "limited": (0, 1),
    },
    longest_s=200.0,
    port_only=OWN_AGENTS,
)
def loose_ends(
    to: int,
    loose: int,
    graceful: int,
    when: int,
    turn: int,
    threads: int,
    context: int,
    again: int,
    comes_back: int,
    limited: int,
) -> str:
    """A worker leaves its group while calls that it serves and makes are under way, creations of its
    own and of others, and a context that it has handed on. With all others, when nothing of that is
    under way any more: all of it has its value then. Or at once: then what was under way ends, with a
    value or an error, nobody waits for what will not come, a release reaches whom it should, once,
    and whoever comes in its place, as the next group of the same processes, knows nothing of it. With
    a limit of time that is too short, all are told so in that time."""
    network = network_beside(turn)
    members = [Visitor(network, name, rank) for rank, name in enumerate(_NAMES)]
    leaves, stays = turn % 3, (turn + 1 + turn // 3) % 3
    at = _Places(leaves, stays, 3 - leaves - stays, 2.0)
    begun = _Begun(loose, when * 0.7, 2 + threads, context)
    if graceful and limited:
        facts = _in_too_short_a_time(network, members, at, begun)
    elif graceful:
        facts = _together(network, members, at, begun)
    else:
        facts = _at_once(network, members, at, begun, bool(comes_back))
    if again:
        facts.update(_next_group(members, at))
    sleep(at.seconds)  # functions that nobody waits for go on
    for each in members:
        kept = each.worker.locals.pop(_KEPT, None)
        if kept is not None:
            kept.clear()
        facts.update(not_empty([each]))
        container = each.worker.container
        facts[f"{each.name} has no context"] = (
            container is None or not container.num_autograd_contexts()
        )
    return told(**facts)


class _Begun(NamedTuple):
    """What is under way as a worker leaves: which of :data:`_LOOSE`, as the bits of a number, for how
    many seconds by then, with how many threads on each worker, and a context: 1, or 2 if that is
    released just before."""

    loose: int
    when_s: float
    threads: int
    context: int


_WHERE = "sim://loose/ends"


def _begin(
    network: Network, members: Sequence[Visitor], at: _Places, begun: _Begun, releases: _Releases
) -> tuple[list[tuple[str, Future[Any]]], int | None]:
    """Form a group, and begin all of it: how each ends, and a context that is open."""
    all_enter(members, _WHERE, threads=begun.threads)
    leaves, stays = members[at.leaves], members[at.stays]
    context_id = stays.do(partial(_passed_context, at)) if begun.context else None
    ends = [
        (begin.__name__[1:], (leaves if there else stays).begin(partial(begin, at)))
        for number, (there, begin) in enumerate(_LOOSE)
        if begun.loose >> number & 1
    ]
    sleep(begun.when_s)
    if begun.context == 2 and context_id is not None:  # the worker leaves while it is being told
        network.add_rule(releases)
        stays.do(partial(autograd._release_context, context_id))
        context_id = None
    return ends, context_id


def _together(
    network: Network, members: Sequence[Visitor], at: _Places, begun: _Begun
) -> dict[str, bool]:
    """All leave, and wait for each other."""
    ends, context_id = _begin(network, members, at, begun, _Releases(at.leaves))
    began_s = network.runtime.now()
    if context_id is not None:
        members[at.stays].do(partial(autograd._release_context, context_id))
    shut_down = [each.begin(rpc.shutdown) for each in members]
    came = [(what, _ended(end)) for what, end in ends]
    for end in shut_down:
        end.wait()
    facts = {f"{what} has its value, not {value}": value in _FINE for what, value in came}
    facts["the end is prompt"] = network.runtime.now() - began_s < at.seconds + _PROMPT_S
    return facts


#: virtual seconds that a worker waits for the others, less than a function takes
_LIMIT_S = 0.5
#: how the errors say it of a worker that is not quiet, and of one that waits for it
_TOO_SHORT = (f"RPC join timed out after {_LIMIT_S:g} s", "StoreTimeoutError")


def _in_too_short_a_time(
    network: Network, members: Sequence[Visitor], at: _Places, begun: _Begun
) -> dict[str, bool]:
    """All leave together, but a call takes longer than they wait for each other. Nothing else is
    under way: what comes of it would depend on who leaves first."""
    _begin(network, members, at, begun._replace(loose=0, context=0), _Releases(at.leaves))
    call = members[at.stays].begin(partial(_served, at))
    sleep(_LIMIT_S / 5)
    began_s = network.runtime.now()
    shut_down = [each.begin(partial(rpc.shutdown, timeout=_LIMIT_S)) for each in members]
    said = [error_of(end.wait) for end in shut_down]
    took_s = network.runtime.now() - began_s
    return {
        **{f"not {text}": any(words in text for words in _TOO_SHORT) for text in said},
        "they are told in time": took_s <= 2 * _LIMIT_S + _SEEN_S / 2,
        "the call has ended": "no error" not in error_of(call.wait),
    }


def _at_once(
    network: Network, members: Sequence[Visitor], at: _Places, begun: _Begun, comes_back: bool
) -> dict[str, bool]:
    """One leaves at once, and a new process may come in its place; then the others leave."""
    now = network.runtime.now
    releases = _Releases(at.leaves)
    ends, context_id = _begin(network, members, at, begun, releases)
    leaves, stays, third = (members[number] for number in at[:3])
    began_s = now()
    leaves.do(partial(rpc.shutdown, graceful=False))
    facts = {f"{what} ends": bool(_ended(end)) for what, end in ends}
    facts["all of it ends promptly"] = now() - began_s < at.seconds + _PROMPT_S
    there = [stays, third]
    if comes_back:
        new = Visitor(network, leaves.name, leaves.number)
        new.worker.incarnation = 1
        new.enter(_WHERE, world_size=len(members)).wait()
        there.append(new)
    kept = stays.worker.locals.get(_KEPT, ())
    sleep(_SEEN_S)
    asked_s = now()
    facts["what is gone is not waited for"] = all(
        "no error" not in error_of(partial(stays.do, reference.to_here)) for reference in kept
    )
    facts["nobody asks for what is gone"] = now() == asked_s
    if begun.context:
        if context_id is not None:
            network.add_rule(releases)
            stays.do(partial(autograd._release_context, context_id))
        sleep(_RETRIED_S)
        network.remove_rule(releases)
        facts["the release is heard of"] = not third.do(_get_debug_info)["num_autograd_contexts"]
        facts["a release is sent once"] = set(releases.sent.values()) <= {1}
    if comes_back:
        facts["who comes back has nothing"] = _has_nothing(there[-1])
    for each in there:
        each.do(partial(rpc.shutdown, graceful=False))
    return facts


#: what may come of what was under way as all left together: a worker that leaves gives its
#: references back, also one that a function still has
_GONE = ("after deletion", "has been deleted")
_FINE = (repr(_VALUE), *_GONE)


def _ended(end: Future[Any]) -> str:
    said = error_of(end.wait)
    gone = next((words for words in _GONE if words in said), None)
    return gone or said.removeprefix("no error but ")


#: counters of a worker on which nothing is under way
_COUNTERS = (
    "num_owner_rrefs",
    "num_forks",
    "num_pending_users",
    "num_pending_futures",
    "num_autograd_contexts",
    "agent.client_active_calls",
)


def _has_nothing(member: Visitor) -> bool:
    counted = member.do(_get_debug_info)
    return not any(int(counted[name]) for name in _COUNTERS)


def _next_group(members: Sequence[Visitor], at: _Places) -> dict[str, bool]:
    """Whether the next group of the same processes begins, goes on and ends with nothing of the one
    before."""
    all_enter(members, _WHERE)
    facts = {}
    for moment, wait_s in (("first", 0.5), ("when all is over", at.seconds)):
        sleep(wait_s)
        for each in members:
            facts[f"{each.name} knows nothing {moment}"] = _has_nothing(each)
    calls = [
        each.do(partial(rpc.rpc_sync, other.name, slow, args=(_VALUE, 0.0)))
        for each in members
        for other in members
    ]
    facts["all call all"] = calls == [_VALUE] * len(members) ** 2
    began_s = current_worker().runtime.now()
    all_do(members, rpc.shutdown)
    facts["the next end is prompt"] = current_worker().runtime.now() - began_s < _PROMPT_S
    return facts
