"""What the members of process groups call: by group and number of the call, who has called what, where and when.

The members of a group have to call the same collectives in the same order, of the same size and type. Gloo does
not look: it moves bytes, so a mistake ends in wrong values, or in a wait that ends at a limit.
"""

from __future__ import annotations

from dataclasses import dataclass, field


class MismatchError(RuntimeError):
    """Members of a process group have called what does not go together."""


@dataclass(frozen=True)
class Call:
    """``agreed``: what all members have to give alike, by name. ``place``: the user's line, "" if there is
    none."""

    rank: int
    kind: str
    agreed: dict[str, str]
    place: str
    at_s: float

    def __str__(self) -> str:
        given = ", ".join(f"{name} {value}" for name, value in self.agreed.items())
        where = f", at {self.place}" if self.place else ""
        return f"rank {self.rank} calls {self.kind}({given}) at t={self.at_s:.6f} s{where}"

    def differs(self, other: Call) -> str:
        """In what; "" if they go together."""
        if self.kind != other.kind:
            return "kind"
        names = [name for name, value in self.agreed.items() if other.agreed.get(name) != value]
        return ", ".join(names)


@dataclass
class Ledger:
    """Of one group of ``size`` members."""

    number: int
    size: int
    #: by number of the call, until all members have called
    _calls: dict[int, list[Call]] = field(default_factory=dict)

    def note(self, sequence: int, call: Call) -> None:
        """Raises :class:`MismatchError` if it does not go with the first one of that number."""
        calls = self._calls.setdefault(sequence, [])
        calls.append(call)
        if len(calls) == self.size:
            del self._calls[sequence]
        differs = call.differs(calls[0])
        if differs:
            raise MismatchError(
                f"collective {sequence} of process group {self.number} differs in {differs}: "
                f"{calls[0]}; {call}"
            )
