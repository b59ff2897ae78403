"""Stories about gathers and barriers of some of the workers, drawn with their members and rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from squall.model.program.stories import stories_of
from squall.real.rpc import api as rpc
from squall.real.rpc.all_gather import _all_gather, _barrier
from squall.real.rpc.wire_names import label_module
from squall.real.runtime import current_task
from squall.sim.programs.stories.api import told, whoami
from squall.sim.programs.stories.calls import SHORT_S, SLOW_S, error_of, sleep
from squall.sim.programs.stories.mutual_exclusion import turn

label_module(__name__, "members")
story = stories_of(__name__, rank=70)

#: seconds by which one of the members comes later than the others
_LATE_S = (0.0, 0.001, 0.05)
_OVER = "is over on its leader"


def take_part(value: Any, names: list[str], late_s: float) -> dict[str, Any]:
    """Give ``value`` to all of these workers, and get theirs."""
    sleep(late_s)
    return _all_gather(value, set(names))


def try_to_take_part(value: Any, names: list[str], late_s: float) -> str:
    """The same within a limit of time: what comes of it."""
    sleep(late_s)
    return error_of(lambda: _all_gather(value, set(names), timeout=SHORT_S))


def come(names: list[str], late_s: float) -> float:
    """Come to a barrier, and give the time at which it was left."""
    sleep(late_s)
    _barrier(set(names))
    return _now()


def _now() -> float:
    now: float = current_task().runtime.now()
    return now


def _members(to: int, others: int) -> list[int]:
    """This worker, ``to``, and of the others those whose bit is set; never all that there are, who
    may be about to meet as they shut down."""
    home = whoami()
    every = range(len(rpc._get_current_rpc_agent().get_worker_infos()))
    chosen = [each for each in every if each in (to, home) or others >> each & 1]
    if len(chosen) == len(every) > 1:
        spare = [each for each in chosen if each not in (to, home)] or [to if to != home else -1]
        chosen.remove(spare[-1])
    return chosen


def _all_do(
    members: list[int], do: Callable[..., Any], *args: Any, late: int, late_s: float
) -> Any:
    """What comes of it, by member, if all of them do it at once, but for one that comes late."""
    home = whoami()
    given = {
        each: (*(arg(each) if callable(arg) else arg for arg in args), late_s * (each == late))
        for each in members
    }
    calls = {
        each: rpc.rpc_async(each, do, args=args, timeout=0)
        for each, args in given.items()
        if each != home
    }
    mine = do(*given[home])
    return {home: mine, **{each: call.wait() for each, call in calls.items()}}


def _names(members: list[int]) -> list[str]:
    return [rpc.get_worker_info(each).name for each in members]


@story(
    "exchange",
    numbers={"others": (0, 255), "rounds": (1, 3), "late": (0, 7), "wait": (0, len(_LATE_S) - 1)},
)
def exchange(to: int, others: int, rounds: int, late: int, wait: int) -> str:
    """Some of the workers give each other objects, round after round, one of them late."""
    members = _members(to, others)
    names = _names(members)
    facts: dict[str, bool] = {}
    with turn(0, "gather"):
        for round in range(rounds):
            seen = _all_do(
                members,
                take_part,
                lambda each, round=round: (round, each),
                names,
                late=members[(late + round) % len(members)],
                late_s=_LATE_S[wait],
            )
            wanted = {name: (round, each) for each, name in zip(members, names, strict=True)}
            for each in members:
                facts[f"round_{round}_on_{each}"] = seen[each] == wanted
    return told(**facts)


@story(
    "barrier",
    numbers={"others": (0, 255), "rounds": (1, 3), "late": (0, 7), "wait": (0, len(_LATE_S) - 1)},
)
def barrier(to: int, others: int, rounds: int, late: int, wait: int) -> str:
    """Nobody leaves a barrier before the last of its workers has come."""
    members = _members(to, others)
    names = _names(members)
    facts: dict[str, bool] = {}
    with turn(0, "gather"):
        for round in range(rounds):
            began = _now()
            last = members[(late + round) % len(members)]
            seen = _all_do(members, come, names, late=last, late_s=_LATE_S[wait])
            for each in members:
                facts[f"round_{round}_on_{each}"] = seen[each] >= began + _LATE_S[wait]
    return told(**facts)


@story(
    "exchange within a limit",
    numbers={"others": (0, 255), "late": (0, 7), "after": (0, 2)},
    longest_s=30.0,
    port_only="after a gather whose time is up PyTorch's workers count their gathers differently, "
    "and the next one of the same workers waits for ever",
)
def exchange_within_a_limit(to: int, others: int, late: int, after: int) -> str:
    """One of the workers comes when the time of the others is up: all hear of it who have to,
    nothing is left of it, and the same workers can exchange objects afterwards."""
    members = _members(to, others)
    names = _names(members)
    leader = members[names.index(min(names))]
    last = members[late % len(members)]
    facts: dict[str, bool] = {}
    with turn(0, "gather"):
        seen = _all_do(
            members, try_to_take_part, lambda each: each, names, late=last, late_s=SLOW_S
        )
        for each in members:
            said = seen[each]
            if len(members) == 1 or (each == last == leader):
                good = said.startswith("no error")
            elif each == last:
                good = _OVER in said
            else:
                good = f"timed out in _all_gather after {SHORT_S:.2f} seconds" in said
            facts[f"on_{each}"] = good
        for round in range(after):
            seen = _all_do(members, take_part, (round, "again"), names, late=last, late_s=0.0)
            wanted = dict.fromkeys(names, (round, "again"))
            facts[f"again_{round}"] = all(each == wanted for each in seen.values())
    return told(**facts)
