"""Two lines that touch the same, or use one key of a store, in one order where a run fails, and in the other where it
passes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from squall.sim.search.why.doing import called, name
from squall.sim.search.why.executed import Executed, Stored
from squall.sim.search.why.origins import calls
from squall.sim.search.why.seen import Call
from squall.sim.search.why.touched import OF_STORES, Kind, Shared, Touch, touches
from squall.sim.search.why.witness import Witness
from squall.sim.world.places import CodePlace

#: times that something is touched after the moment that are compared with others
_MOST = 40


class _Access(NamedTuple):
    """A line that touches something, the ``nth`` time that a thread does so there. ``thread``: its worker, and whom
    it serves or how it is called."""

    thread: tuple[int, str]
    touch: Touch
    nth: int

    @property
    def thing(self) -> tuple[object, ...]:
        """What it touches: a store is that of all processes."""
        return (
            self.touch.thing if self.touch.kind in OF_STORES else (self.touch.thing, self.thread[0])
        )


class Flipped(NamedTuple):
    """``shared``: which lines, the first first in the run that fails. ``first`` and ``second``: the workers, with the call
    that each serves, or whose answer it has, or else the line that has called the function."""

    shared: Shared
    first: int
    second: int
    first_of: Call | CodePlace | None = None
    second_of: Call | CodePlace | None = None
    #: whether the step has brought the first about
    is_mine: bool = False

    @property
    def places(self) -> list[CodePlace]:
        """The lines that it names."""
        asked = [
            each.place if isinstance(each, Call) else each
            for each in (self.first_of, self.second_of)
        ]
        return [
            self.shared.first.place,
            self.shared.second.place,
            *(each for each in asked if each is not None),
        ]


def flipped(
    failing: Witness, passing: Witness, step: int, only: Collection[Kind] = ()
) -> Flipped | None:
    """The first two lines from a step on that come in another order where it passes: best the first is of the task of that
    step, and what is certainly the same for both is before what only has the same name, and that before what two
    only add to. ``only``: what is of these kinds."""
    there = {access: at for at, (_, access, _) in enumerate(_accesses(passing))}
    things: dict[tuple[object, ...], list[tuple[int, int, _Access, int]]] = defaultdict(list)
    for at, (line, access, number) in enumerate(_accesses(failing)):
        if (not only or access.touch.kind in only) and line.step >= step and access in there:
            things[access.thing].append((at, there[access], access, number))
    done = failing.lines.done
    tasks = {each.task for each in failing.acts(step)}
    found: list[tuple[bool, int, int, int, Flipped]] = []
    for each in things.values():
        for n, (at, other, one, first) in enumerate(each[:_MOST]):
            for later, before, two, second in each[n + 1 : _MOST]:
                writes = one.touch.writes or two.touch.writes
                if before < other and one.thread != two.thread and writes:
                    is_mine = done[first].task in tasks
                    pair = Flipped(
                        Shared(one.touch, two.touch),
                        one.thread[0],
                        two.thread[0],
                        _asked(failing, first),
                        _asked(failing, second),
                        is_mine,
                    )
                    found.append((not is_mine, _doubt(one.touch, two.touch), at, later, pair))
    return min(found, key=lambda each: each[:4])[4] if found else None


def _doubt(one: Touch, two: Touch) -> int:
    """How little it says that both touch the same."""
    return 2 if one.how == two.how == "add" else int(one.kind == "attribute")


def _answered(witness: Witness, task: int) -> Call | None:
    """The call whose answer a task has, if it does."""
    known = witness.tasks.get(task)
    sent = None if known is None else witness.sent.get(known.cause)
    return sent.call if sent is not None and sent.is_reply else None


def _asked(witness: Witness, number: int) -> Call | CodePlace | None:
    """On whose behalf that line was executed."""
    done = witness.lines.done
    line = done[number]
    call = witness.call_of(line.task) or _answered(witness, line.task)
    if call is not None:
        return call
    if isinstance(line, Stored):
        return None
    before = (
        each
        for each in done[number - 1 :: -1]
        if each.task == line.task and isinstance(each, Executed)
    )
    place = next(
        (CodePlace(e.code.co_filename, e.line) for e in before if e.code is not line.code), None
    )
    return place if place is not None and calls(place, line.code.co_name) else None


def _accesses(witness: Witness) -> Iterator[tuple[Executed | Stored, _Access, int]]:
    """In order, with the number of what was done there."""
    counts: Counter[tuple[object, ...]] = Counter()
    for number, line in enumerate(witness.lines.done):
        call, task = witness.call_of(line.task), witness.tasks.get(line.task)
        answered = _answered(witness, line.task)
        who = f"call {call.src}" if call is not None else "" if task is None else task.name
        who = who if answered is None else f"answer {answered.key}"
        if isinstance(line, Stored):
            who = who or line.by
        thread = witness.worker_of_act(line), who
        for touch in touches([line], witness.lines):
            counts[thread, touch] += 1
            yield line, _Access(thread, touch, counts[thread, touch]), number


def _behalf(asked: Call | CodePlace | None, worker: int, names: Mapping[int, str]) -> str:
    """Of what a line is a part, as a phrase."""
    if asked is None or isinstance(asked, CodePlace) or not asked.place.file:
        return ""
    if asked.src == worker:
        return f" with the answer of {name(asked.dst, names)} to {called(asked, names)}"
    return f" for {called(asked, names)}"


def told(flip: Flipped, names: Mapping[int, str]) -> list[str]:
    """That in sentences. ``names``: of workers."""
    one, two = flip.shared
    asked = (flip.first, one, flip.first_of), (flip.second, two, flip.second_of)
    if one.kind in OF_STORES:
        first, second = (
            f"`store.{touch.method}` of {names.get(worker, touch.by)} ({touch.place})"
            f"{_behalf(of, worker, names)}"
            for worker, touch, of in asked
        )
        said = f"{first} came before {second}, both of key `{one.name}`."
    else:
        first, second = (
            f"{name(worker, names)} {'changed' if touch.writes else 'used'} {{}} in "
            f"`{touch.place.function}` "
            f"({touch.place}{f', called at {of}' if isinstance(of, CodePlace) else ''})"
            f"{_behalf(of, worker, names)}"
            for worker, touch, of in asked
        )
        said = f"{first.format(f'`{one.name}`')} before {second.format('it')}."
    return [said, "In runs that pass it is the other way round."]
