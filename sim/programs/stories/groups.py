"""A story about groups of fixed size, one after the other, of the same processes under other names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from squall.model.program.stories import stories_of
from squall.real.rpc import api as rpc
from squall.real.rpc.all_gather import _all_gather
from squall.real.rpc.wire_names import label_module
from squall.real.worker import current_worker
from squall.sim.programs.stories.api import told
from squall.sim.programs.stories.calls import echo, error_of, sleep
from squall.sim.programs.stories.own_process import OWN_AGENTS, Visitor, network_beside

label_module(__name__, "groups")
story = stories_of(__name__, rank=105)

#: they do not sort as their ranks do
_NAMES = ("trainer:1", "ps", "z-last", "Master")
_HOPS, _CHAINED = "hops of the story groups", "chained calls of the story groups"
#: virtual seconds between an answer and the call that follows
_BETWEEN_S = 0.05
#: virtual seconds after which callers give up what takes longer: by then a message has arrived, as one
#: that nobody waits for is not waited for on its way
_GIVEN_UP_S = 0.02
#: virtual seconds by which everything of a round is to be over
_PROMPT_S = 60.0
#: what is said of references that a shutdown has deleted
_NO_FETCH = "Cannot call to_here() on it after deletion."
_NO_FORK = "Cannot call fork an UserRRef after deletion."


def hop(names: Sequence[str], left: int) -> None:
    """Call the next worker, and do not wait for it."""
    here = current_worker().locals
    here[_HOPS] = here.get(_HOPS, 0) + 1
    if left:
        rpc.rpc_async(names[left % len(names)], hop, args=(names, left - 1))


def count() -> None:
    here = current_worker().locals
    here[_CHAINED] = here.get(_CHAINED, 0) + 1


def _chain(names: Sequence[str], left: int) -> None:
    """Calls, each made some time after the answer to the one before, by a callback."""
    call = rpc.rpc_async(names[left % len(names)], count)

    def follow(_: object) -> None:
        sleep(_BETWEEN_S)
        _chain(names, left - 1)

    if left:
        call.then(follow)


def go_on(names: Sequence[str], left: int) -> None:
    """Count, some time after whoever called has given up; then call the next worker in that way."""
    sleep(_BETWEEN_S)
    count()
    if left:
        rpc.rpc_async(names[left % len(names)], go_on, (names, left - 1), timeout=_GIVEN_UP_S)


def call_back(to: str, number: int) -> int:
    """Ask the caller for what it has sent, and wait for it."""
    got: int = rpc.rpc_sync(to, echo, args=(number,))
    return got


def _calls_back(name: str, back: str, times: int) -> list[int]:
    """As many calls at once as both have threads: each waits for a call to whoever made it."""
    calls = [rpc.rpc_async(name, call_back, args=(back, n)) for n in range(times)]
    return [call.wait() for call in calls]


def _gathers(names: list[str], value: int, times: int) -> list[Any]:
    """What all give, whom some of them name, and what the first two by name give, so many times."""
    some = set(sorted(names)[:2])
    found: list[Any] = [_all_gather(value, set(names)) if value % 2 else _all_gather(value)]
    if rpc.get_worker_info().name in some:
        found += [_all_gather((value, n), some) for n in range(times)]
    return found


def _all(there: Sequence[Visitor], functions: Sequence[Callable[[], Any]]) -> list[Any]:
    ends = [each.begin(function) for each, function in zip(there, functions, strict=True)]
    return [end.wait() for end in ends]


class _Keeper:
    """Who keeps references beyond the group in which they were made: to another worker's value, and
    one of its own."""

    def __init__(self, holder: Visitor, to: str) -> None:
        self.holder = holder
        self.theirs, self.own = holder.do(lambda: (rpc.remote(to, echo, args=(5,)), rpc.RRef(3)))
        self.fetched = holder.do(self.theirs.to_here)

    def uses(self, to: str) -> bool:
        """Whether another worker's value is gone, and its own is there, in the next group."""
        here, theirs = self.holder, self.theirs
        fetched = error_of(partial(here.do, theirs.to_here))
        passed_on = error_of(lambda: here.do(lambda: rpc.rpc_sync(to, echo, args=(theirs,))))
        return (
            self.fetched == 5
            and f"has been deleted. {_NO_FETCH}" in fetched
            and f"has been deleted. {_NO_FORK}" in passed_on
            and here.do(self.own.local_value) == here.do(self.own.to_here) == 3
        )


@story(
    "groups",
    numbers={
        "count": (1, 3),
        "sides": (1, 2),
        "rounds": (1, 3),
        "turn": (0, 3),
        "swapped": (0, 7),
        "trouble": (0, 3),
        "threads": (1, 4),
        "hops": (0, 6),
        "chained": (0, 2),
    },
    longest_s=200.0,
    port_only=OWN_AGENTS,
)
def groups(
    to: int,
    count: int,
    sides: int,
    rounds: int,
    turn: int,
    swapped: int,
    trouble: int,
    threads: int,
    hops: int,
    chained: int,
) -> str:
    """Processes form groups, round after round, under names that they take turns with; some of
    them go over to the group beside theirs. They gather, keep all of their threads waiting, and
    leave while calls are under way. A group that contradicts itself is refused, to all of its
    workers at once, and the next one forms."""
    network = network_beside(hops + turn)
    runtime = network.runtime
    there = [[Visitor(network, "", rank) for rank in range(count)] for _ in range(sides)]
    facts: dict[str, bool] = {}
    keepers: list[_Keeper] = []
    if trouble in (1, 2):
        # A process that gave a rank in vain has it for good.
        others = [Visitor(network, _NAMES[rank], rank) for rank in range(count + 1)]
        others[-1].number = count + 1 if trouble == 2 else 0
        said = "out of range" if trouble == 2 else "is taken by another worker"
        facts["refused"] = _refused(others, "sim://groups/refused", said, runtime.now)
    for round in range(rounds):
        for side, members in enumerate(there):
            for rank, each in enumerate(members):
                each.name = _NAMES[(rank + round * turn) % len(_NAMES)]
            where, began = f"sim://groups/{round}/{side}", runtime.now()
            if trouble == 3 and round == 0 and count > 1:
                members[-1].name = members[0].name
                facts[f"refused_{side}"] = _refused(members, where, "", runtime.now)
                members[-1].name = _NAMES[count - 1]
            for name, fact in _round(
                members, where, threads, hops, chained, 1 + side, keepers
            ).items():
                facts[f"{name}_{round}_{side}"] = fact
            facts[f"prompt_{round}_{side}"] = runtime.now() - began < _PROMPT_S
        for rank in range(count):
            if swapped >> rank & 1:
                for members, other in zip(
                    there, [each[rank] for each in reversed(there)], strict=True
                ):
                    members[rank] = other
    return told(**facts)


def _enter(members: Sequence[Visitor], where: str, **options: Any) -> list[str]:
    """What comes of it for each."""
    ends = [each.enter(where, world_size=len(members), **options) for each in members]
    return [error_of(end.wait) for end in ends]


def _refused(members: list[Visitor], where: str, said: str, now: Callable[[], float]) -> bool:
    """Whether all hear of what is wrong with their group, before long. ``said`` empty: the first and
    the last have the same name."""
    began = now()
    heard = _enter(members, where)
    last, name = len(members) - 1, members[0].name
    texts = [said] * len(members)
    if not said:
        ranks = [f"0 and {last}" if rank < last else f"{last} and 0" for rank in range(last + 1)]
        texts = [f"{name} is not unique. Workers {both} share the same name." for both in ranks]
    told = zip(heard, texts, strict=True)
    return all(text in each for each, text in told) and now() - began < _PROMPT_S


def _round(
    members: list[Visitor],
    where: str,
    threads: int,
    hops: int,
    chained: int,
    gathers: int,
    keepers: list[_Keeper],
) -> dict[str, bool]:
    """One group, from its beginning to its end."""
    for each in members:
        each.worker.locals.pop(_HOPS, None)
        each.worker.locals.pop(_CHAINED, None)
    entered = _enter(members, where, threads=threads)
    if set(entered) != {"no error but None"}:
        return {"entered": False}
    names = [each.name for each in members]
    some = sorted(names)[:2]
    everybody = {each.name: each.number for each in members}
    wanted = [
        [everybody, *({name: (everybody[name], n) for name in some} for n in range(gathers))]
        if each.name in some
        else [everybody]
        for each in members
    ]
    gathered = _all(members, [partial(_gathers, names, each.number, gathers) for each in members])
    first, last = members[0], members[-1]
    back = (
        first.do(partial(_calls_back, last.name, first.name, threads)) if last is not first else []
    )
    facts = {
        "seen": all(each.sees() == sorted(everybody.items()) for each in members),
        "gathered": gathered == wanted,
        "called_back": back in ([], [*range(threads)]),
    }
    for keeper in [each for each in keepers if each.holder in members]:
        facts["kept"] = facts.get("kept", True) and keeper.uses(names[-1])
        keepers.remove(keeper)
    if last is not first:
        keepers.append(_Keeper(first, last.name))
    first.do(partial(hop, names, hops))
    last.do(partial(_chain, names, chained))
    late = chained if last is not first else 0
    if late:
        first.do(partial(rpc.rpc_async, last.name, go_on, (names, late), timeout=_GIVEN_UP_S))
    _all(members, [rpc.shutdown] * len(members))
    facts["chained"] = sum(each.worker.locals.get(_CHAINED, 0) for each in members) == (
        chained + 1 + (late + 1 if late else 0)
    )
    facts["hopped"] = sum(each.worker.locals.get(_HOPS, 0) for each in members) == hops + 1
    return facts
