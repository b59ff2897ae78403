"""Every order of what a script does in process groups, whether sends wait for their receivers or do not."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import get_args

from squall.sim.explore.group_orders import End, Outcome, Sends, orders_of
from squall.sim.explore.group_program import GroupProgram, Name
from squall.sim.explore.group_record import record
from squall.sim.explore.search import Budget
from squall.sim.scenario import Scenario

SENDS: tuple[Sends, ...] = get_args(Sends)
#: what sends may do on a backend; on others they wait for their receivers, as on gloo
_ON: dict[str, tuple[Sends, ...]] = {"nccl": ("streams",), "mpi": ("rendezvous", "buffered")}
#: outcomes of runs in which no rank has failed
_FOLLOWED = ("ok", "deadlock", "mismatch")


@dataclass
class GroupOrders:
    """``runs``: how often the script was run, once for each way in which its receives from any rank take messages;
    ``ends``: the first that was met of each outcome, by what sends do, and ``orders``: how many ends there are.
    ``backends``: those of its groups. ``whole``: whether no budget ended it. ``polled``: lines that ask
    whether an operation is over, or for its future."""

    program: GroupProgram
    backends: tuple[str, ...]
    runs: int = 0
    ends: dict[Sends, dict[Outcome, End]] = field(
        default_factory=lambda: {sends: {} for sends in SENDS}
    )
    orders: dict[Sends, int] = field(default_factory=lambda: dict.fromkeys(SENDS, 0))
    whole: bool = True
    interrupted: bool = False
    polled: tuple[str, ...] = ()

    def all_end(self, sends: Sends) -> bool:
        """Whether nothing else than the end of every rank was met."""
        return {*self.ends[sends]} <= {"ok"}

    @property
    def good(self) -> bool:
        """Whether every rank ends on the backends of the script."""
        ways = (_ON.get(backend, ("rendezvous",)) for backend in self.backends)
        return all(self.all_end(sends) for several in ways for sends in several)


def explore_groups(
    scenario: Scenario, budget: Budget, on_run: Callable[[GroupOrders], object] = lambda _: None
) -> GroupOrders | None:
    """None if it makes no process groups, or an RPC group, whose messages have an order of their own.

    A script may go on otherwise when another message has come first, so that it is run for each way in which
    messages may come first. Raises :class:`squall.sim.world.controlled_time.NotExplorableError` for what cannot be followed.
    """
    started = time.monotonic()
    found: GroupOrders | None = None
    left: list[dict[Name, int]] = [{}]
    seen: set[frozenset[tuple[Name, int]]] = set()
    while left:
        written, run = record(scenario, left.pop())
        if run.broken_off:
            found = found or GroupOrders(written.program, ())
            found.interrupted, found.whole = True, False
            return found
        if found is None:
            if run.rpc_groups.joined or not written.program.members:
                return None
            found = GroupOrders(written.program, tuple(written.backends))
        taken = written.taken.items()
        found.runs += 1
        found.polled = tuple(dict.fromkeys((*found.polled, *written.polled)))
        for sends in SENDS:
            if sends == "streams" and written.program.receives_from_any:
                continue
            explored = orders_of(written.program, sends)
            found.whole &= explored.whole
            for end in explored.all_ends.values():
                chosen = frozenset(end.choices)
                if end.outcome == "ok" and chosen <= taken and run.outcome not in _FOLLOWED:
                    lines = tuple(f"{each.worker}: {each.message}" for each in run.errors[:1])
                    end = End("error", lines, end.choices)
                if chosen <= taken:
                    found.orders[sends] += 1
                    found.ends[sends].setdefault(end.outcome, end)
                elif chosen not in seen:
                    seen.add(chosen)
                    left.append(dict(chosen))
        on_run(found)
        if left and budget.is_spent(found.runs, time.monotonic() - started):
            found.whole = False
            break
    return found
