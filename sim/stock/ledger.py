"""What the members of process groups call: by group and number of the call, who has called what, where and when.

The members of a group have to call the same collectives in the same order, of the same size and type. Gloo does
not look: it moves bytes, so a mistake ends in wrong values, or in a wait that ends at a limit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from squall.sim.stock.call_names import Names
from squall.sim.stock.call_order import CallOrder, told


class MismatchError(RuntimeError):
    """Members of a process group have called what does not go together."""


@dataclass(frozen=True)
class Call:
    """``agreed``: what all members have to give alike, by name; ``gives``, ``takes``: by member, what it is
    sent and what is expected of it. ``place``: the user's line, "" if there is none."""

    rank: int
    kind: str
    agreed: dict[str, str]
    place: str
    at_s: float
    gives: tuple[int, ...] = ()
    takes: tuple[int, ...] = ()
    names: Names = field(default_factory=Names)
    sequence: int = 0

    def __str__(self) -> str:
        about = dict(self.agreed)
        if self.gives:
            about |= {"gives": f"{list(self.gives)}", "takes": f"{list(self.takes)}"}
        given = ", ".join(f"{name} {value}" for name, value in about.items())
        where = f", at {self.place}" if self.place else ""
        return f"rank {self.rank} calls {self.kind}({given}) at t={self.at_s:.6f} s{where}"

    def differs(self, other: Call) -> str:
        """In what; "" if they go together."""
        if self.kind != other.kind:
            return "kind"
        names = [name for name, value in self.agreed.items() if other.agreed.get(name) != value]
        if "elements" in names and "shape" in names:
            names.remove("shape")
        ways = (self, other), (other, self)
        if any(one.gives and one.gives[two.rank] != two.takes[one.rank] for one, two in ways):
            names.append("parts")
        return ", ".join(names)


@dataclass
class Ledger:
    """Of one group of ``size`` members."""

    number: int
    size: int
    #: by number of the call, until all members have called
    _calls: dict[int, list[Call]] = field(default_factory=dict)
    #: by member and kind: the number of the last one that it called, and the call
    last: dict[tuple[int, str], tuple[int, Call]] = field(default_factory=dict)
    _order: CallOrder = field(default_factory=CallOrder)

    def missed(self, rank: int) -> str:
        """The first collective that others have called and this member, which leaves, has not; "" if there
        is none."""
        for sequence, calls in sorted(self._calls.items()):
            if rank not in [call.rank for call in calls]:
                return (
                    f"collective {sequence} of process group {self.number}: {calls[0]}; rank {rank} "
                    "leaves the group without it"
                )
        return ""

    def note(self, call: Call) -> None:
        """Raises :class:`MismatchError` if it does not go with another one of that number, or is one of several that
        are called in another order."""
        sequence = call.sequence
        calls = self._calls.setdefault(sequence, [])
        calls.append(call)
        self.last[call.rank, call.kind] = sequence, call
        if len(calls) == self.size:
            del self._calls[sequence]
        for other in calls if call.gives else calls[:1]:
            differs = call.differs(other)
            if differs:
                raise MismatchError(
                    f"collective {sequence} of process group {self.number} differs in {differs}: "
                    f"{other}; {call}"
                )
        if len(calls) == self.size and (rows := self._order.note(calls)):
            raise MismatchError(
                f"collectives of process group {self.number} are called in another order: "
                + "; ".join(map(told, rows))
            )
