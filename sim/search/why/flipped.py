"""Two lines that touch the same in one order where a run fails, and in the other where it passes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from squall.sim.search.why.doing import called, name
from squall.sim.search.why.executed import Executed
from squall.sim.search.why.origins import calls
from squall.sim.search.why.seen import Call
from squall.sim.search.why.touched import Kind, Shared, touches
from squall.sim.search.why.witness import Witness
from squall.sim.world.places import Place

#: times that something is touched after the moment that are compared with others
_MOST = 40


class _Access(NamedTuple):
    """A line that touches something, the ``nth`` time that a thread does so there. ``thread``: its worker, and whom
    it serves or how it is called."""

    thread: tuple[int, str]
    kind: Kind
    name: str
    writes: bool
    place: Place
    nth: int

    @property
    def thing(self) -> tuple[str, ...]:
        """What it touches: a store is that of all processes."""
        where = "" if self.kind == "store" else str(self.thread[0])
        return self.kind, self.name, where


class Flipped(NamedTuple):
    """``shared``: which lines, the first first in the run that fails. ``first`` and ``second``: the workers, with the call
    that each serves, or whose answer it has, or else the line that has called the function."""

    shared: Shared
    first: int
    second: int
    first_of: Call | Place | None = None
    second_of: Call | Place | None = None

    @property
    def places(self) -> list[Place]:
        """The lines that it names."""
        asked = [
            each.place if isinstance(each, Call) else each
            for each in (self.first_of, self.second_of)
        ]
        return [
            self.shared.first,
            self.shared.second,
            *(each for each in asked if each is not None),
        ]


def flipped(failing: Witness, passing: Witness, step: int) -> Flipped | None:
    """The first two lines from a step on that come in another order where it passes: best the first is of the task of that
    step, and what is certainly the same for both is before what only has the same name."""
    there = {access: at for at, (_, access, _) in enumerate(_accesses(passing))}
    things: dict[tuple[str, ...], list[tuple[int, int, _Access, int]]] = defaultdict(list)
    for at, (line, access, number) in enumerate(_accesses(failing)):
        if line.step >= step and access in there:
            things[access.thing].append((at, there[access], access, number))
    lines = failing.lines.executed
    tasks = {line.task for line in failing.acts(step)}
    found: list[tuple[bool, bool, int, int, Flipped]] = []
    for each in things.values():
        for n, (at, other, one, first) in enumerate(each[:_MOST]):
            for later, before, two, second in each[n + 1 : _MOST]:
                if before < other and one.thread != two.thread and (one.writes or two.writes):
                    shared = Shared(
                        one.kind, one.name, one.place, two.place, one.writes, two.writes
                    )
                    pair = Flipped(
                        shared,
                        one.thread[0],
                        two.thread[0],
                        _asked(failing, first),
                        _asked(failing, second),
                    )
                    is_mine = lines[first].task in tasks
                    found.append((not is_mine, one.kind == "attribute", at, later, pair))
    return min(found, key=lambda each: each[:4])[4] if found else None


def _answered(witness: Witness, task: int) -> Call | None:
    """The call whose answer a task has, if it does."""
    known = witness.tasks.get(task)
    sent = None if known is None else witness.sent.get(known.cause)
    return sent.call if sent is not None and sent.is_reply else None


def _asked(witness: Witness, number: int) -> Call | Place | None:
    """On whose behalf that line was executed."""
    lines = witness.lines.executed
    line = lines[number]
    call = witness.call_of(line.task) or _answered(witness, line.task)
    if call is not None:
        return call
    before = (each for each in lines[number - 1 :: -1] if each.task == line.task)
    place = next(
        (Place(e.code.co_filename, e.line) for e in before if e.code is not line.code), None
    )
    return place if place is not None and calls(place, line.code.co_name) else None


def _accesses(witness: Witness) -> Iterator[tuple[Executed, _Access, int]]:
    """In order, with the number of the line that was executed."""
    counts: Counter[tuple[object, ...]] = Counter()
    for number, line in enumerate(witness.lines.executed):
        call, task = witness.call_of(line.task), witness.tasks.get(line.task)
        answered = _answered(witness, line.task)
        who = f"call {call.src}" if call is not None else "" if task is None else task.name
        who = who if answered is None else f"answer {answered.key}"
        thread = witness.worker_of_task(line.task), who
        for touch in touches([line], witness.lines):
            key = (thread, *touch)
            counts[key] += 1
            access = _Access(thread, touch.kind, touch.name, touch.writes, touch.place, counts[key])
            yield line, access, number


def _behalf(asked: Call | Place | None, worker: int, names: Mapping[int, str]) -> str:
    """Of what a line is a part, as a phrase."""
    if asked is None or isinstance(asked, Place) or not asked.place.file:
        return ""
    if asked.src == worker:
        return f" with the answer of {name(asked.dst, names)} to {called(asked, names)}"
    return f" for {called(asked, names)}"


def told(flip: Flipped, names: Mapping[int, str]) -> list[str]:
    """That in sentences. ``names``: of workers."""
    shared = flip.shared
    first, second = (
        f"{name(worker, names)} {'changed' if writes else 'used'} {{}} in `{place.function}` "
        f"({place}{f', called at {asked}' if isinstance(asked, Place) else ''})"
        f"{_behalf(asked, worker, names)}"
        for worker, place, writes, asked in (
            (flip.first, shared.first, shared.first_writes, flip.first_of),
            (flip.second, shared.second, shared.second_writes, flip.second_of),
        )
    )
    said = f"{first.format(f'`{shared.name}`')} before {second.format('it')}."
    return [said, "In runs that pass it is the other way round."]
