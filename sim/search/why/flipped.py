"""Two lines that touch the same in one order where a run fails, and in the other where it passes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from squall.sim.search.why.doing import name
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
    """``shared``: which lines, the first first in the run that fails. ``first`` and ``second``: the workers."""

    shared: Shared
    first: int
    second: int


def flipped(failing: Witness, passing: Witness, step: int) -> Flipped | None:
    """The first two lines from a step on that come in another order where it passes, what is certainly the same for both
    before what only has the same name."""
    there = {access: at for at, (_, access) in enumerate(_accesses(passing))}
    things: dict[tuple[str, ...], list[tuple[int, int, _Access]]] = defaultdict(list)
    for at, (when, access) in enumerate(_accesses(failing)):
        if when >= step and access in there:
            things[access.thing].append((at, there[access], access))
    found: list[tuple[bool, int, int, Flipped]] = []
    for each in things.values():
        for n, (at, other, one) in enumerate(each[:_MOST]):
            for later, before, two in each[n + 1 : _MOST]:
                if before < other and one.thread != two.thread and (one.writes or two.writes):
                    shared = Shared(
                        one.kind, one.name, one.place, two.place, one.writes, two.writes
                    )
                    pair = Flipped(shared, one.thread[0], two.thread[0])
                    found.append((one.kind == "attribute", at, later, pair))
    return min(found, key=lambda each: each[:3])[3] if found else None


def _accesses(witness: Witness) -> Iterator[tuple[int, _Access]]:
    """In order, with the step."""
    counts: Counter[tuple[object, ...]] = Counter()
    for line in witness.lines.executed:
        call, task = witness.call_of(line.task), witness.tasks.get(line.task)
        who = f"call {call.src}" if call is not None else "" if task is None else task.name
        thread = witness.worker_of_task(line.task), who
        for touch in touches([line], witness.lines):
            key = (thread, *touch)
            counts[key] += 1
            yield (
                line.step,
                _Access(thread, touch.kind, touch.name, touch.writes, touch.place, counts[key]),
            )


def told(flip: Flipped, names: Mapping[int, str]) -> list[str]:
    """That in sentences. ``names``: of workers."""
    shared = flip.shared
    first, second = (
        f"{name(worker, names)} {'changed' if writes else 'used'} {{}} in `{place.function}` ({place})"
        for worker, place, writes in (
            (flip.first, shared.first, shared.first_writes),
            (flip.second, shared.second, shared.second_writes),
        )
    )
    said = f"{first.format(f'`{shared.name}`')} before {second.format('it')}."
    return [said, "In runs that pass it is the other way round."]
