"""What the members of process groups call: by group and number of the call, who has called what, where and when.

The members of a group have to call the same collectives in the same order, of the same size and type. Gloo does
not look: it moves bytes, so a mistake ends in wrong values, or in a wait that ends at a limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from squall.sim.scripts.call import Call
from squall.sim.scripts.call_order import CallOrder, told

#: ranks of a group that are told one by one
_TOLD = 4


class MismatchError(RuntimeError):
    """Members of a process group have called what does not go together."""


def group_named(ranks: Sequence[int], made: str) -> str:
    """What people are told that a process group is: of which ranks it was made, and at which line; of the default one
    ``ranks`` is empty."""
    if not ranks:
        return "the default process group"
    many = f"{len(ranks)} ranks"
    if len(ranks) <= _TOLD:
        many = "rank" + "s" * (len(ranks) > 1) + f" {' and '.join(map(str, ranks))}"
    return f"the process group of {many}" + (f" made at {made}" if made else "")


@dataclass
class Ledger:
    """Of one group; ``of``: what people are told that it is; ``ranks``: of its members in the default group."""

    of: str
    ranks: Sequence[int]
    #: by number of the call, until all members have called
    _calls: dict[int, list[Call]] = field(default_factory=dict)
    #: by rank and kind: the last one that it called
    last: dict[tuple[int, str], Call] = field(default_factory=dict)
    #: ranks that have left it by themselves
    left: set[int] = field(default_factory=set)
    #: of calls: number and member that waits no longer, since its time is over or a peer has gone
    _given_up: set[tuple[int, int]] = field(default_factory=set)
    _order: CallOrder = field(default_factory=CallOrder)

    def missed(self) -> str:
        """The first collective that somebody waits for and a member that has left has not called; "" if there is
        none."""
        for sequence, calls in sorted(self._calls.items()) if self.left else ():
            waiting = [call for call in calls if (sequence, call.rank) not in self._given_up]
            for rank in sorted(self.left - {call.rank for call in calls}) if waiting else ():
                return (
                    f"collective {sequence} of {self.of}: {waiting[0]}; rank {rank} "
                    "leaves the group without it"
                )
        return ""

    def give_up(self, sequence: int, rank: int) -> None:
        """A member's call has failed: nobody has to come to it for its sake."""
        self._given_up.add((sequence, rank))

    def known(self, call: Call) -> Call:
        """The same with the root's rank in the default group, for its text."""
        root = call.agreed.get("root")
        if root is None:
            return call
        return replace(call, agreed={**call.agreed, "root": str(self.ranks[int(root)])})

    def note(self, call: Call) -> None:
        """Raises :class:`MismatchError` if it does not go with another one of that number, or is one of several that
        are called in another order."""
        sequence, call = call.sequence, self.known(call)
        calls = self._calls.setdefault(sequence, [])
        calls.append(call)
        self.last[call.rank, call.kind] = call
        if len(calls) == len(self.ranks):
            del self._calls[sequence]
        for other in calls if call.gives else calls[:1]:
            differs = call.differs(other)
            if differs:
                raise MismatchError(
                    f"collective {sequence} of {self.of} differs in {differs}: "
                    + (f"{call}" if other is call else f"{other}; {call}")
                )
        if len(calls) == len(self.ranks) and (rows := self._order.note(calls)):
            raise MismatchError(
                f"collectives of {self.of} are called in another order: "
                + "; ".join(map(told, rows))
            )
