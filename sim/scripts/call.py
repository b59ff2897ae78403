"""One member's call of a collective of its process group, as the coordinator notes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Frame(NamedTuple):
    """A call in a file of the user's: ``text`` is its source."""

    function: str
    text: str
    file: str
    line: int


class Names(NamedTuple):
    """What the script calls it. ``stack``: the outermost call first; ``variables``: those in which the tensor is;
    ``parameter``: which of the parameters and buffers of modules it is, or is the gradient of; "" if it is none."""

    stack: tuple[Frame, ...] = ()
    variables: tuple[str, ...] = ()
    parameter: str = ""


@dataclass(frozen=True)
class Call:
    """``rank``: that in the default group, ``member``: its place in its own; ``sequence``: the how manieth collective of
    its group it is; ``agreed``: what all members have to give alike, by name; ``gives``, ``takes``: by member, what it is
    sent and what is expected of it, in elements. ``place``: the user's line, "" if there is none; ``at_s``: seconds of
    virtual time."""

    rank: int
    member: int
    kind: str
    sequence: int
    agreed: dict[str, str]
    place: str
    at_s: float
    gives: tuple[int, ...] = ()
    takes: tuple[int, ...] = ()
    names: Names = field(default_factory=Names)

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
        if any(one.gives and one.gives[two.member] != two.takes[one.member] for one, two in ways):
            names.append("parts")
        return ", ".join(names)
