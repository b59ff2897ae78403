"""The messages that are sent until they are heard: which copies of one there were, and when each
was due.

The delays are those of the protocol (rpc_agent.cpp: computeNewRpcRetryTime in PyTorch), written down here
and not taken from what is judged.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from squall.model.events.fault_effects import RETRIES
from squall.model.events.run import Run
from squall.real import tracing

#: seconds from the sending of one copy to that of the next: the first, the second, and each
#: later one, which waits half as long again as the one before
_FIRST_S, _SECOND_S, _GROWTH = 1.0, 1.0, 1.5
#: two times that are one
SAME_S = 1e-6

#: (sender, receiver, type, what it is about)
Key = tuple[int, int, str, tuple[Any, ...]]


def delay_s(copy: int) -> float:
    """Seconds from the sending of copy ``copy``, counted from 0, to that of the next one."""
    delays = [_FIRST_S, _SECOND_S]
    while len(delays) <= copy:
        delays.append(delays[-1] * _GROWTH)
    return delays[copy]


class Copy(NamedTuple):
    """One call of a message that is sent again: the event, the time, and the id of the call."""

    event: int
    time_s: float
    id: int


class Chain:
    """One message with all its copies."""

    __slots__ = ("copies", "key")

    def __init__(self, key: Key, first: Copy) -> None:
        self.key = key
        self.copies = [first]

    @property
    def due_s(self) -> float:
        """When the next copy is due, unless one has been answered."""
        return self.copies[-1].time_s + delay_s(len(self.copies) - 1)

    @property
    def is_last(self) -> bool:
        """Whether no further copy may follow."""
        return len(self.copies) > RETRIES[self.key[2]]


class Resends:
    """All chains of a run, by what they are of, and how calls ended: (time, outcome) by caller and
    id."""

    def __init__(self, run: Run) -> None:
        records = run.records
        self.chains: dict[Key, list[Chain]] = {}
        self.ended: dict[tuple[int, int], tuple[float, str]] = {
            (records[n][1], records[n][4][0]): (records[n][0], records[n][4][2])
            for n in run.of(tracing.CALL_ENDED)
        }
        for n in run.of(tracing.CALL_STARTED):
            time_s, worker, _, _, (id, dst, type, _, about) = records[n]
            if type not in RETRIES:
                continue
            key = worker, dst, type, about
            copy = Copy(n, time_s, id)
            chains = self.chains.setdefault(key, [])
            due = [c for c in chains if not c.is_last and abs(c.due_s - time_s) < SAME_S]
            if len(due) > 1:  # begun at once: it is of one that has not been answered
                due.sort(key=lambda chain: self._heard_before(chain, time_s))
            if due:
                due[0].copies.append(copy)
            else:
                chains.append(Chain(key, copy))

    def _heard_before(self, chain: Chain, time_s: float) -> bool:
        heard_s = self.heard_s(chain)
        return heard_s is not None and heard_s < time_s

    def heard_s(self, chain: Chain) -> float | None:
        """When a copy was answered without error first; None: none was."""
        times = [
            end[0]
            for copy in chain.copies
            if (end := self.ended.get((chain.key[0], copy.id))) is not None and end[1] == "ok"
        ]
        return min(times, default=None)


def resends_of(run: Run) -> Resends:
    """The chains of a run, found once."""
    known: Resends | None = run.__dict__.get("_resends")
    if known is None:
        known = run.__dict__["_resends"] = Resends(run)
    return known
