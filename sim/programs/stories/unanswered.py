"""Stories about what a worker is not told, or does not get to: the release of a context, and requests
that wait for a thread as their group ends."""

from __future__ import annotations

from functools import partial
from typing import Any

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
from squall.sim.programs.stories.calls import error_of, sleep
from squall.sim.programs.stories.own_process import (
    OWN_AGENTS,
    Visitor,
    all_do,
    all_enter,
    network_beside,
    not_empty,
)
from squall.sim.world.rules import Drop, Fail, Ruling

label_module(__name__, "unserved")
story = stories_of(__name__, rank=117)

_RUNS = "runs of functions that nobody waits for"


# -- a release that is not heard of ----------------------------------------------------------------

#: copies of a release that are sent here at most, so that the story is over before long
_ALL = 6
#: virtual seconds until a release has been given up, and others have been told
_GIVEN_UP_S = 90.0


def passes_on(x: Tensor, on: list[int]) -> Tensor:
    """Send a tensor along these workers, in the context that it came in."""
    return rpc.rpc_sync(on[0], passes_on, args=(x, on[1:])) if on else x * x


def _passed_along(on: list[int]) -> int:
    context_id = autograd._new_context()._context_id()
    passes_on(torch.ones(2, requires_grad=True), on)
    current_task().autograd_context_id = -1
    return context_id


def _gives_up_early(visitor: Visitor) -> None:
    """Let a worker send no more copies of a message that is to be heard than :data:`_ALL`."""
    agent: Any = visitor.worker.agent
    sends = agent.send_with_retries

    def send_with_retries(to: int, message: Message, most: int) -> Future[Message]:
        future: Future[Message] = sends(to, message, min(most, _ALL - 1))
        return future

    agent.send_with_retries = send_with_retries


class _Unheard:
    """The first messages that tell a worker of a release do not come there."""

    def __init__(self, to: int, times: int, told_at_once: bool) -> None:
        self._to = to
        self._left = times
        self._verdict: Ruling = Fail("not sent") if told_at_once else Drop("a story loses it")

    def __call__(self, message: Message) -> Ruling | None:
        if message.type is not MessageType.CLEANUP_AUTOGRAD_CONTEXT_REQ or message.dst != self._to:
            return None
        self._left -= 1
        return self._verdict if self._left >= 0 else None


@story(
    "unheard release",
    numbers={
        "members": (3, 5),
        "deaf": (1, 3),
        "times": (0, _ALL),
        "how": (0, 1),
        "latency": (0, 2),
    },
    longest_s=_GIVEN_UP_S + 10,
    port_only="PyTorch's workers tell only those of a release whom they have reached themselves",
)
def unheard_release(to: int, members: int, deaf: int, times: int, how: int, latency: int) -> str:
    """A context has gone on from worker to worker, and one of them does not hear of its release, or
    hears of it late: all others release it in any case."""
    network = network_beside(latency)
    there = [Visitor(network, f"w{number}", number) for number in range(members)]
    all_enter(there, "sim://unheard", threads=4)
    for each in there:
        _gives_up_early(each)
    deaf = min(deaf, members - 1)
    context_id = there[0].do(partial(_passed_along, [*range(1, members)]))
    network.add_rule(_Unheard(deaf, 1000 if times == _ALL else times, bool(how)))
    there[0].do(partial(autograd._release_context, context_id))
    sleep(_GIVEN_UP_S)
    facts = {}
    for each in there:
        open_there = each.do(_get_debug_info)["num_autograd_contexts"] != 0
        hears = each.number != deaf or times < _ALL
        facts[f"{each.name} hears of it: {hears}"] = open_there is not hears
    all_do(there, partial(rpc.shutdown, graceful=False))
    return told(**facts)


# -- requests that nobody gets to ------------------------------------------------------------------

#: virtual seconds that a function keeps its thread
_BUSY_S = 2.0


def keeps_its_thread() -> None:
    sleep(_BUSY_S)


def runs(value: Any) -> Any:
    """Count the calls of this function on this worker."""
    here = current_worker().locals
    here[_RUNS] = here.get(_RUNS, 0) + 1
    return value


def runs_with(references: list[Any]) -> int:
    """The same, of references. They are not given back: as a group ends with each other, a worker deletes
    what it refers to as soon as all have arrived, while requests that waited are still served."""
    return int(runs(len(references)))


def _crowded(to: str, threads: int, calls: int, creations: int, references: int) -> list[Any]:
    """Keep all threads of a worker, and have more requests wait for one; those that end."""
    ends: list[Future[Any]] = [rpc.rpc_async(to, keeps_its_thread) for _ in range(threads)]
    sleep(_BUSY_S / 8)  # no request overtakes these
    given = [rpc.RRef(number) for number in range(references)]
    ends += [rpc.rpc_async(to, runs_with, args=(given,)) for _ in range(calls)]
    for number in range(creations):
        rpc.remote(to, runs, args=(number,))
    return ends


@story(
    "requests of a group before",
    numbers={
        "threads": (1, 3),
        "calls": (0, 3),
        "creations": (0, 2),
        "references": (0, 2),
        "graceful": (0, 1),
        "next": (0, 2),
        "latency": (0, 2),
    },
    longest_s=60.0,
    port_only=OWN_AGENTS,
)
def requests_of_a_group_before(
    to: int,
    threads: int,
    calls: int,
    creations: int,
    references: int,
    graceful: int,
    next: int,
    latency: int,
) -> str:
    """Requests wait for a thread as all workers leave their group. With each other, all are served.
    At once: none of them is served any more, in the next group neither, which begins before there is a
    thread again, or when there is."""
    network = network_beside(latency)
    there = [Visitor(network, f"w{number}", number) for number in range(2)]
    all_enter(there, "sim://waiting", threads=threads)
    caller, callee = there
    ends = caller.do(partial(_crowded, callee.name, threads, calls, creations, references))
    sleep(_BUSY_S / 4)
    all_do(there, partial(rpc.shutdown, graceful=bool(graceful)))
    facts = {}
    for number, end in enumerate(ends):
        fine = error_of(end.wait).startswith("no error")
        facts[f"call {number} ends as it should"] = fine is bool(graceful)
    if next == 2:
        sleep(_BUSY_S)
    if next:
        all_enter(there, "sim://waiting", threads=threads)
    sleep(2 * _BUSY_S)
    served = callee.worker.locals.pop(_RUNS, 0)
    facts["those are served that have to be"] = served == (calls + creations if graceful else 0)
    if next:
        asked = caller.do(partial(rpc.rpc_sync, callee.name, runs, args=(7,)))
        facts["the next group works"] = asked == 7
        all_do(there, rpc.shutdown)
    return told(**facts, **not_empty(there))
