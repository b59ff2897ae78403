"""What the ranks of a script do in process groups, written down as it runs once."""

from __future__ import annotations

import io
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from squall.model.events.run import Run
from squall.real.runtime import current_task
from squall.sim.engines.port import ENGINE as PORT
from squall.sim.explore.dependencies import replaced
from squall.sim.explore.group_program import ANY, MESSAGE, Action, Begin, GroupProgram, Name, Wait
from squall.sim.scenario import Scenario
from squall.sim.scripts.compat.groups import Begun
from squall.sim.scripts.compat.work import Work
from squall.sim.scripts.group import ProcessGroup
from squall.sim.scripts.group import Wait as Open
from squall.sim.scripts.groups import Groups
from squall.sim.world.controlled_time import NotExplorableError
from squall.sim.world.pieces import POINT_TO_POINT
from squall.sim.world.places import line_of


class Record:
    """``taken``: whose message each receive from any rank is to take, by its name, and after the run has taken.
    ``polled``: lines in which it was asked whether an operation is over, or for its future: what a script does may depend
    on the answer, or it may wait there unseen.
    ``backends``: those of the groups."""

    def __init__(self, taken: Mapping[Name, int]) -> None:
        self.taken = dict(taken)
        self._actions: dict[int, list[Action]] = {}
        self._members: dict[int | str, tuple[int, ...]] = {}
        #: by operation: its rank, and the how manieth it is there
        self._known: dict[object, tuple[int, int]] = {}
        self._counts: Counter[int] = Counter()
        #: by task: the operation that it has begun last; and which one it is there to finish
        self._last: dict[object, object] = {}
        self._finishes: dict[object, object] = {}
        self.polled: dict[str, None] = {}
        self.backends: dict[str, None] = {}

    @property
    def program(self) -> GroupProgram:
        size = max((rank for ranks in self._members.values() for rank in ranks), default=-1) + 1
        ranks = tuple((tuple(self._actions.get(rank, ())),) for rank in range(size))
        return GroupProgram(ranks, self._members)

    def begun(
        self, group: ProcessGroup[Any], wait: Open[Any], gives: list[int], tells: list[int]
    ) -> None:
        task, call, ranks = current_task(), wait.call, group.ranks
        if task in self._finishes:
            raise NotExplorableError(
                f"rank {call.rank} begins {call.kind} in a callback of another operation"
            )
        self._members[group.name] = tuple(ranks)
        is_message = wait.tag[0] == POINT_TO_POINT
        begin = Begin(
            group.name,
            MESSAGE if is_message else str(wait.tag[0]),
            int(wait.tag[1]) if is_message else None,
            gives=_of(ranks, gives),
            wants=_of(ranks, wait.wants),
            tells=_of(ranks, tells),
            readers=_of(ranks, wait.readers),
            batch=wait.batch,
            agreed="" if is_message else ", ".join(f"{k} {v}" for k, v in call.agreed.items()),
            place=call.place.partition(": ")[0],
        )
        self._actions.setdefault(call.rank, []).append(begin)
        number = self._counts[call.rank]
        self._counts[call.rank] += 1
        self._known[wait.question] = call.rank, number
        self._last[task] = wait.question
        if ANY in wait.wants:
            self._lead(group, wait, (call.rank, 0, number), tells)

    def _lead(
        self, group: ProcessGroup[Any], wait: Open[Any], name: Name, tells: list[int]
    ) -> None:
        """Let a receive from any rank take what it is to take, or write down what it takes."""
        if name in self.taken:
            wait.wants[:] = tells[:] = [group.ranks.index(self.taken[name])]
            return
        answer = wait.answer

        def answered(problem: str | None, got: dict[int, Any]) -> object:
            self.taken.update((name, group.ranks[source]) for source in got)
            return answer(problem, got)

        wait.answer = answered

    def made(self, work: Work) -> None:
        self._finishes[work.task] = self._last[current_task()]

    def ends(self, begun: Begun) -> None:
        self.backends[begun.group.backend] = None
        if current_task() not in self._finishes:
            self._waits(begun.wait.question)

    def waits(self, work: Work) -> None:
        self._waits(self._finishes[work.task])

    def _waits(self, question: object) -> None:
        rank, number = self._known[question]
        self._actions[rank].append(Wait(number))

    def polls(self) -> None:
        self.polled[line_of(sys._getframe()).partition(": ")[0]] = None


def _of(ranks: Sequence[int], members: Iterable[int]) -> tuple[int, ...]:
    return tuple(ANY if each == ANY else ranks[each] for each in members)


def record(scenario: Scenario, taken: Mapping[Name, int]) -> tuple[Record, Run]:
    """Run a script on the port, with sends that are over at once, so that it comes as far as it can. ``taken``: see
    :class:`Record`.

    Raises :class:`NotExplorableError` for what cannot be followed.
    """
    written = Record(taken)
    with _told(written):
        run = PORT.run(scenario, stdout=io.StringIO(), stderr=io.StringIO())
    return written, run


@contextmanager
def _told(record: Record) -> Iterator[None]:
    """Let groups tell what is done in the block."""
    do, end = Groups.do, Begun.end
    init, wait, is_completed, get_future = (
        Work.__init__,
        Work.wait,
        Work.is_completed,
        Work.get_future,
    )

    def done(
        self: Groups[Any], group: ProcessGroup[Any], open_: Open[Any], pieces: Any, tells: list[int]
    ) -> None:
        record.begun(group, open_, [*pieces], tells)
        if open_.tag[0] == POINT_TO_POINT:
            open_.readers.clear()
        do(self, group, open_, pieces, tells)

    def ended(self: Begun) -> Any:
        record.ends(self)
        return end(self)

    def made(self: Work, *args: Any, **options: Any) -> None:
        init(self, *args, **options)
        record.made(self)

    def waited(self: Work, *args: Any, **options: Any) -> bool:
        record.waits(self)
        return wait(self, *args, **options)

    def polled(self: Work) -> bool:
        record.polls()
        return is_completed(self)

    def asked(self: Work) -> Any:
        record.polls()
        return get_future(self)

    changed: list[tuple[type, str, Any]] = [
        (Groups, "do", done),
        (Begun, "end", ended),
        (Work, "__init__", made),
        (Work, "wait", waited),
        (Work, "is_completed", polled),
        (Work, "get_future", asked),
    ]
    with replaced(changed):
        yield
