"""What the ranks of a program do in process groups, as data: which operations each begins, and for which it waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

#: for "whoever sends first"
ANY = -1
#: the kind of a message from point to point
MESSAGE = "send"

Group = int | str
#: of an operation: rank, thread, and the how manieth it is that the thread begins
Name = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Begin:
    """An operation of one rank. Ranks are global.

    ``channel``: a tag, of a message; None of a collective, which goes with those that the other members call as
    the same one, counted from the first. ``gives``: who is sent something; ``wants``: from whom something has to come,
    which is :data:`ANY` for whoever sends first; ``tells``: who learns that this one is there; ``readers``: who has to
    say so, before the operation is over. ``agreed``: in what all members have to agree. ``batch``: which one of its rank
    it belongs to, 0 for none. ``place``: the user's line.
    """

    group: Group
    kind: str
    channel: int | None = None
    gives: tuple[int, ...] = ()
    wants: tuple[int, ...] = ()
    tells: tuple[int, ...] = ()
    readers: tuple[int, ...] = ()
    agreed: str = ""
    batch: int = 0
    place: str = ""

    def __str__(self) -> str:
        if self.channel is None:
            what = f"{self.kind}({self.agreed})"
        elif self.gives:
            what = f"send to rank {self.gives[0]} with tag {self.channel}"
        else:
            source = "any rank" if self.wants == (ANY,) else f"rank {self.wants[0]}"
            what = f"receive from {source} with tag {self.channel}"
        return f"{what} at {self.place}" if self.place else what


class Wait(NamedTuple):
    """Until the ``number``-th operation that ``thread`` of the same rank begins is over."""

    number: int
    thread: int = 0


Action = Begin | Wait
#: what one thread of a rank does, one after the other
Thread = tuple[Action, ...]


@dataclass(frozen=True)
class GroupProgram:
    """By rank: its threads. ``members``: the ranks of each group."""

    ranks: tuple[tuple[Thread, ...], ...]
    members: dict[Group, tuple[int, ...]]

    @property
    def receives_from_any(self) -> bool:
        """Which NCCL does not have."""
        actions = (action for threads in self.ranks for thread in threads for action in thread)
        return any(isinstance(action, Begin) and ANY in action.wants for action in actions)


def send(to: int, tag: int = 0, group: Group = 0, batch: int = 0) -> Begin:
    """Of a message, over once its receiver is there."""
    return Begin(group, MESSAGE, tag, gives=(to,), readers=(to,), batch=batch)


def receive(source: int = ANY, tag: int = 0, group: Group = 0, batch: int = 0) -> Begin:
    tells = () if source == ANY else (source,)
    return Begin(group, MESSAGE, tag, wants=(source,), tells=tells, batch=batch)
