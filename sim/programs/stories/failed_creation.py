"""Stories about what there is to see of calls and references elsewhere: a creation of which nothing
comes, and counters while calls are under way."""

from __future__ import annotations

from functools import partial
from typing import Any, NoReturn

from squall.model.program.stories import PLANTED, StoryError, stories_of
from squall.real.future import Future
from squall.real.rpc import api as rpc
from squall.real.rpc.current import enable_gil_profiling
from squall.real.rpc.init import _get_debug_info
from squall.real.rpc.wire_names import label_module
from squall.real.worker import current_worker
from squall.sim.programs.stories.api import told
from squall.sim.programs.stories.calls import (
    CREATION_TIMED_OUT,
    SHORT_S,
    SLOW_S,
    echo,
    error_of,
    sleep,
    slow,
)
from squall.sim.programs.stories.own_process import (
    Visitor,
    all_do,
    all_enter,
    network_beside,
    not_empty,
)

label_module(__name__, "uncreated")
story = stories_of(__name__, rank=116)

#: virtual seconds within which each use of such a reference ends
_PROMPT_S = 20.0


def _members(latency: int, where: str, count: int, threads: int) -> list[Visitor]:
    network = network_beside(latency)
    members = [Visitor(network, f"w{number}", number) for number in range(count)]
    all_enter(members, where, threads=threads)
    return members


# -- nothing is created ------------------------------------------------------------------------------


def _unreadable() -> NoReturn:
    raise StoryError(PLANTED)


class Unreadable:
    """Cannot be made where it arrives."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _unreadable, ()


def reads(reference: Any) -> Any:
    return reference.local_value()


def fetches(reference: Any) -> Any:
    return reference.to_here()


def asks(reference: Any) -> Any:
    return reference.rpc_sync(timeout=SLOW_S).bit_length()


def hands_on(reference: Any, to: int) -> Any:
    return rpc.rpc_sync(to, reads, args=(reference,))


def _uncreated(how: int, owner: int) -> Any:
    """A reference to nothing: its creation cannot be read, or is given up before it is done."""
    if how:
        return rpc.remote(owner, slow, args=(1, SLOW_S), timeout=SHORT_S)
    return rpc.remote(owner, echo, args=(Unreadable(),))


def _uses(use: int, reference: Any, owner: int, third: int) -> Any:
    match use:
        case 0:
            return fetches(reference)
        case 1:
            return rpc.rpc_sync(owner, reads, args=(reference,))
        case 2:
            return rpc.rpc_sync(third, fetches, args=(reference,))
        case 3:
            return asks(reference)
        case _:
            return rpc.rpc_sync(third, hands_on, args=(reference, owner))


#: how many uses there are
_USES = 5


@story(
    "nothing is created",
    numbers={
        "how": (0, 1),
        "uses": (1, 2**_USES - 1),
        "waits": (0, 2),
        "latency": (0, 2),
        "kept": (0, 1),
        "home": (0, 1),
    },
    longest_s=150.0,
    port_only="whoever asks for a value whose creation has failed waits there for ever",
)
def nothing_is_created(
    to: int, how: int, uses: int, waits: int, latency: int, kept: int, home: int
) -> str:
    """A creation cannot be read, or is given up by its creator, who uses the reference in several ways:
    before anybody knows, or later. Each use comes to an end soon, with the value if there is one after
    all, else with an error; so does the group. If the creator is the owner, too, all hear that it was
    given up, also those who had asked before."""
    members = _members(latency, "sim://uncreated", 3, 4)
    creator, now = members[0], current_worker().runtime.now
    owner = 0 if home else 1
    facts: dict[str, bool] = {}

    def create() -> list[tuple[int, Any]]:
        reference = _uncreated(how, owner)
        if kept:
            current_worker().locals["kept"] = [reference]
        sleep((0.0, SHORT_S / 2, SHORT_S * 2)[waits])
        return [
            (use, creator.begin(partial(_uses, use, reference, owner, 2)))
            for use in range(_USES)
            if uses >> use & 1
        ]

    began_s = now()
    for use, end in creator.do(create):
        said = error_of(end.wait)
        fine = ("RuntimeError", PLANTED) if not how else ("no error but 1", "RuntimeError")
        if how and home:
            fine = (CREATION_TIMED_OUT, CREATION_TIMED_OUT)
        facts[f"use {use} ends as it should, not {said[:40]}"] = any(part in said for part in fine)
    facts["each use ends soon"] = now() - began_s < SLOW_S + _PROMPT_S
    began_s = now()
    all_do(members, rpc.shutdown)
    facts["the group ends soon"] = now() - began_s < SLOW_S + _PROMPT_S
    creator.worker.locals.pop("kept", None)
    sleep(SLOW_S)
    return told(**facts, **not_empty(members))


# -- counters ----------------------------------------------------------------------------------------


def counters() -> dict[str, Any]:
    return _get_debug_info()


def _counts_waits(flag: bool) -> bool:
    """Whether the counters say how long threads wait for the interpreter's lock, if that is asked for."""
    enable_gil_profiling(flag)
    return "agent.gil_average_wait_time_us" in counters()


@story(
    "counters",
    numbers={"calls": (0, 3), "creations": (0, 2), "threads": (1, 3), "latency": (0, 2)},
    longest_s=60.0,
    port_only="nobody sees from outside which calls PyTorch's agents have at a moment",
)
def counters_of_calls(to: int, calls: int, creations: int, threads: int, latency: int) -> str:
    """While calls and creations take long, both ends count them, and threads that are idle; when they
    have ended nothing is counted."""
    size = calls + creations + threads
    members = _members(latency, "sim://counters", 2, size)
    caller, callee = members
    sleep(SHORT_S)

    def begin() -> tuple[list[Future[Any]], list[Any]]:
        return (
            [rpc.rpc_async(1, slow, args=(n, SLOW_S)) for n in range(calls)],
            [rpc.remote(1, slow, args=(n, SLOW_S)) for n in range(creations)],
        )

    futures, references = caller.do(begin)
    sleep(SHORT_S)
    busy, here = calls + creations, caller.do(counters)
    there = caller.do(partial(rpc.rpc_sync, 1, counters))
    facts = {
        "calls of the caller": here["agent.client_active_calls"] == str(busy),
        "requests of the callee": there["agent.server_active_calls"] == str(busy + 1),
        "size of the pool": there["agent.thread_pool_size"] == str(size),
        "idle threads": there["agent.num_idle_threads"] == str(size - busy - 1),
        "pending users": here["num_pending_users"] == str(creations),
    }
    facts["values"] = [end.wait() for end in futures] == [*range(calls)]
    sleep(SLOW_S)
    there = callee.do(counters)
    facts["values of the callee"] = there["num_owner_rrefs"] == str(creations)
    facts["forks of the callee"] = there["num_forks"] == str(creations)
    facts["idle in the end"] = there["agent.num_idle_threads"] == str(size)
    facts["waits for the interpreter's lock"] = [
        caller.do(partial(_counts_waits, flag)) for flag in (True, False)
    ] == [True, False]
    references.clear()
    sleep(SHORT_S)
    facts["nothing is counted in the end"] = not any(
        int(each.do(counters)[name])
        for each in members
        for name in ("num_owner_rrefs", "num_forks", "agent.client_active_calls")
    )
    all_do(members, rpc.shutdown)
    return told(**facts)
