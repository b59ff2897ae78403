"""A story about how a group of any size ends while calls that nobody waits for go from worker to
worker."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

from squall.model.program.stories import stories_of
from squall.real.future import Future
from squall.real.rpc import api as rpc
from squall.real.rpc.all_gather import _all_gather
from squall.real.rpc.functions import async_execution
from squall.real.rpc.wire_names import label_module
from squall.real.worker import current_worker
from squall.sim.programs.stories.api import told
from squall.sim.programs.stories.calls import echo
from squall.sim.programs.stories.own_process import (
    LATENCIES,
    OWN_AGENTS,
    Visitor,
    all_do,
    all_enter,
    network_beside,
    not_empty,
)
from squall.sim.world.slow_store import SlowStore

label_module(__name__, "ends")
story = stories_of(__name__, rank=118)

_WHERE, _HOPS = "sim://ends", "hops of the story about the end of a group"
_KEPT = "what hops have kept of what they were given"
#: virtual seconds by which a group has ended
_PROMPT_S = 20.0
#: how many hops are as many as it takes to end a group that is quiet
_HOPS_A_ROUND = 15
#: in which ways a chain goes on, and what a hop takes along
_WAYS, _CARGO = 4, 3
#: virtual seconds that an answer of a store takes at most that takes its time
_STORE_S = 0.005


def _arrives(left: int, keeps: int, carried: Any) -> bool:
    """Count a hop, and keep what it was given, if it is to. Whether there is one more."""
    here = current_worker().locals
    here[_HOPS] = here.get(_HOPS, 0) + 1
    if keeps:
        here.setdefault(_KEPT, []).append(carried)
    return left > 0


def _carried(cargo: int) -> Any:
    """Nothing, a reference of this worker, which the next one drops, or two to one value."""
    reference = rpc.RRef(cargo) if cargo else None
    return [reference] * cargo


def hop(names: list[str], left: int, way: int, cargo: int, keeps: int, carried: Any) -> None:
    """Have the next worker go on with the chain, and do not wait for it."""
    if not _arrives(left, keeps, carried):
        return
    to = names[left % len(names)]
    args = names, left - 1, way, cargo, keeps, _carried(cargo)
    if way == 0:
        rpc.rpc_async(to, hop, args=args)
    elif way == 1:  # when the call is over, and this worker may have nothing else to do
        rpc.rpc_async(to, echo, args=(_carried(cargo),)).then(lambda _: hop(*args))
    else:  # a creation of which nobody keeps the reference
        rpc.remote(to, hop, args=args)


@async_execution
def hop_and_wait(names: list[str], left: int, cargo: int, keeps: int, carried: Any) -> Future[Any]:
    """Go on with the chain: the call is over when the rest of it is, and keeps no thread."""
    if _arrives(left, keeps, carried):
        to = names[left % len(names)]
        args = names, left - 1, cargo, keeps, _carried(cargo)
        return rpc.rpc_async(to, hop_and_wait, args=args)
    end: Future[Any] = Future()
    end.set_result(None)
    return end


def _begin(names: list[str], hops: int, way: int, cargo: int, keeps: int) -> None:
    to = names[hops % len(names)]
    if way == 3:
        rpc.rpc_async(to, hop_and_wait, args=(names, hops, cargo, keeps, _carried(cargo)))
    else:
        rpc.rpc_async(to, hop, args=(names, hops, way, cargo, keeps, _carried(cargo)))


@story(
    "end of a group",
    numbers={
        "members": (1, 9),
        "chains": (1, 2),
        "rounds": (0, 4),
        "way": (0, _WAYS - 1),
        "cargo": (0, _CARGO - 1),
        "latency": (0, len(LATENCIES) - 1),
        "gathers": (0, 2),
        "store": (0, 3),
        "keeps": (0, 1),
    },
    longest_s=60.0,
    port_only=OWN_AGENTS,
)
def end_of_a_group(
    to: int,
    members: int,
    chains: int,
    rounds: int,
    way: int,
    cargo: int,
    latency: int,
    gathers: int,
    store: int,
    keeps: int,
) -> str:
    """All workers of a group give each other objects and leave together, while chains of calls go from
    one to the next, with references that are dropped on arrival, or kept: each chain comes to its end, each
    owner hears of each reference that is gone, and nothing is left. The store at which they meet takes
    its time, or answers at once."""
    network = network_beside(latency)
    runtime = network.runtime
    hops = rounds * _HOPS_A_ROUND
    there = [Visitor(network, f"member{number}", number) for number in range(members)]
    if store:
        answers = Random(store * 100 + members * 10 + latency)
        slow = SlowStore(runtime, answers, longest_s=_STORE_S, adverse=store > 1)
        network.meet_at(f"{_WHERE}/rpc_prefix_0", slow)
    all_enter(there, _WHERE, threads=3)
    names = [each.name for each in there]
    facts: dict[str, bool] = {}
    for number in range(gathers):
        given = [each.begin(partial(_all_gather, (number, each.name))) for each in there]
        wanted = {name: (number, name) for name in names}
        facts[f"gather {number}"] = all(end.wait() == wanted for end in given)
    owners = [each.worker.rref_context.owner_tables for each in there]  # type: ignore[union-attr]
    for number in range(chains):
        there[number % members].do(
            partial(_begin, names, hops, (way + number) % _WAYS, cargo, keeps)
        )
    began_s = runtime.now()
    all_do(there, rpc.shutdown)
    facts["it ends promptly"] = runtime.now() - began_s < _PROMPT_S
    hopped = sum(each.worker.locals.pop(_HOPS, 0) for each in there)
    facts["each chain has come to its end"] = hopped == chains * (hops + 1)
    facts["each owner has heard of what is gone"] = not any(each.forks for each in owners)
    for each in there:
        each.worker.locals.pop(_KEPT, None)
    return told(**facts, **not_empty(there))


@story(
    "readers of counts",
    numbers={"members": (4, 9), "rounds": (2, 5), "latency": (0, 1), "store": (2, 9)},
    longest_s=60.0,
    port_only=OWN_AGENTS,
)
def readers_of_counts(to: int, members: int, rounds: int, latency: int, store: int) -> str:
    """The same with one long chain of calls that carry nothing, and a store that lets each worker of
    the group count its calls when it has none: the chain is elsewhere, and the group waits for it."""
    return end_of_a_group(to, members, 1, rounds, 0, 0, latency, 0, store, 0)
