"""The groups of workers that a script forms, one after the other, each as a run of its own.

A group numbers its workers from 0, and each of them numbers its calls, contexts and references from
0 again. What holds of a group is asked of its own events.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import replace

from squall.model.events.run import Run, Violation
from squall.real.tracing import (
    CALL_ENDED,
    CALL_STARTED,
    CONTEXT_CREATED,
    CONTEXT_RELEASED,
    MESSAGE_DELIVERED,
    MESSAGE_DROPPED,
    MESSAGE_SENT,
    EventType,
)

#: by what may end after its worker has joined the next group: what begins it, in its own
_BEGUN_BY = {CALL_ENDED: CALL_STARTED, CONTEXT_RELEASED: CONTEXT_CREATED}
_BEGIN = frozenset(_BEGUN_BY.values())


class GroupEvents:
    """The events of one group, as a run; ``numbers``: which events of the whole run they are."""

    def __init__(self, run: Run, numbers: list[int]) -> None:
        self._numbers = numbers
        self.run = replace(
            run,
            records=[run.records[n] for n in numbers],
            rpc_groups=replace(run.rpc_groups, joined=[]),
            judged=replace(run.judged, digests=()),
        )

    def of_the_whole(self, violation: Violation) -> Violation:
        """The same violation, with the numbers that its events have in the whole run."""
        return violation._replace(events=tuple(self._numbers[n] for n in violation.events))


def groups_of(run: Run) -> list[GroupEvents]:
    """The groups of a run in which there were several; none for one in which there was one.

    Two groups at the same time cannot be told apart by the ids of their workers: such a run has
    no group that can be judged, and ``rpc_groups.overlapping`` says so.
    """
    if len({group for _, _, group in run.rpc_groups.joined}) < 2 or run.rpc_groups.overlapping:
        return []
    starts: dict[int, list[tuple[int, int]]] = {}
    for n, worker, group in run.rpc_groups.joined:
        starts.setdefault(worker, []).append((n, group))
    numbers: dict[int, list[int]] = {group: [] for _, _, group in run.rpc_groups.joined}
    #: by the number of a message: the group in which it was sent
    messages: dict[int, int] = {}
    #: by worker, what begins it, and id: the groups in which such have begun and not ended
    begun: defaultdict[tuple[int, EventType, int], deque[int]] = defaultdict(deque)
    for n, (_, worker, _, type, values) in enumerate(run.records):
        if type is MESSAGE_SENT:
            worker = values[1]
        elif type in (MESSAGE_DELIVERED, MESSAGE_DROPPED) and values[0] in messages:
            numbers[messages[values[0]]].append(n)
            continue
        theirs = starts.get(worker)
        if theirs is None:
            continue  # of a process that has not joined
        while len(theirs) > 1 and theirs[1][0] <= n:
            del theirs[0]
        group = theirs[0][1]
        if type in _BEGIN:
            begun[worker, type, values[0]].append(group)
        elif (beginning := _BEGUN_BY.get(type)) is not None:
            known = begun[worker, beginning, values[0]]
            group = known.popleft() if known else group
        numbers[group].append(n)
        if type is MESSAGE_SENT:
            messages[values[0]] = group
    return [GroupEvents(run, each) for each in numbers.values()]
