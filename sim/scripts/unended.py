"""What a process of a script has made and is to end itself, with the lines that made it, on either engine: futures to wait
for, operations of process groups, groups, threads, autograd contexts, references."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from squall.model.events.kept import Kept, Thing
from squall.real.own_files import OWN_FILES
from squall.real.runtime import current_task
from squall.sim.world.places import NOWHERE, CodePlace, is_library, user_place

if TYPE_CHECKING:
    from squall.real.process import Process

#: so many that one line has made, at least, tell that it makes one a step
_STEPS_LEAST = 3


#: what libraries make as well, and end or leave as they like: users can do nothing about it
_LIBRARIES_TOO = ("operations", "threads")
#: where those functions are with which one makes them
_MAKERS = tuple(
    os.sep + os.path.join(*names)
    for names in (
        ("threading.py",),
        ("torch", "distributed", "distributed_c10d.py"),
        ("torch", "distributed", "c10d_logger.py"),
    )
)


class Unended(NamedTuple):
    """What a line has made that has not ended: how many, and where others of the same line have."""

    what: Thing
    place: CodePlace
    number: int
    others: CodePlace = NOWHERE


class Made:
    """Of one process."""

    def __init__(self) -> None:
        self._numbers: Counter[tuple[Thing, CodePlace]] = Counter()
        self._ended_at: dict[tuple[Thing, CodePlace], CodePlace] = {}

    def note(self, what: Thing, thing: object) -> None:
        """``thing`` was made by the code of the user's that runs. It is to be ended (:func:`over`), whether somebody holds
        it or not."""
        place = user_place(sys._getframe(1))
        if what in _LIBRARIES_TOO and _by_library(sys._getframe(1)):
            return
        if place.file and thing not in _UNENDED:
            self._numbers[what, place] += 1
            _UNENDED[thing] = self, what, place

    def ended(self, what: Thing, place: CodePlace) -> None:
        self._numbers[what, place] -= 1
        self._ended_at[what, place] = user_place(sys._getframe(1))

    def forget(self, what: Thing) -> None:
        """All of that kind have ended."""
        for key in self._numbers:
            if key[0] == what:
                self._numbers[key] = 0

    def unended(self) -> list[Unended]:
        return [
            Unended(what, place, number, self._ended_at.get((what, place), NOWHERE))
            for (what, place), number in self._numbers.items()
            if number > 0
        ]

    def kept(self, worker: str) -> list[Kept]:
        """The same, for reports."""
        return [
            Kept(worker, str(place), number, what=what, function=place.function)
            for what, place, number, _ in self.unended()
        ]


#: what has not ended, of all processes
_UNENDED: WeakKeyDictionary[Any, tuple[Made, Thing, CodePlace]] = WeakKeyDictionary()


def _by_library(frame: FrameType | None) -> bool:
    """Whether code of a library asks for what is made there."""
    while frame is not None and (
        frame.f_code.co_filename.startswith(OWN_FILES) or frame.f_code.co_filename.endswith(_MAKERS)
    ):
        frame = frame.f_back
    return frame is not None and is_library(frame.f_code.co_filename)


def note(what: Thing, thing: object) -> None:
    """The process that runs has made that."""
    made = getattr(current_task().worker, "made", None)
    if made is not None:
        made.note(what, thing)


def forget(what: Thing) -> None:
    """All of that kind have ended, of the process that runs."""
    made = getattr(current_task().worker, "made", None)
    if made is not None:
        made.forget(what)


def kept(worker: Process) -> list[Kept]:
    """What a process has made and not ended."""
    made = getattr(worker, "made", None)
    return [] if made is None else made.kept(worker.known_as)


def over(thing: object) -> None:
    """Somebody has waited for it, or it has ended."""
    found = _UNENDED.pop(thing, None)
    if found is not None:
        made, what, place = found
        made.ended(what, place)


class References:
    """The references of one process, as long as they are there: the line that made each, and after how many calls."""

    def __init__(self) -> None:
        self._made: WeakKeyDictionary[Any, tuple[CodePlace, int]] = WeakKeyDictionary()

    def note(self, reference: object, calls: int) -> None:
        place = user_place(sys._getframe(1))
        if place.file:
            self._made[reference] = place, calls

    def unended(self) -> list[Unended]:
        numbers = Counter(place for place, _ in self._made.values())
        return [Unended("references", place, number) for place, number in numbers.items()]

    def kept(
        self,
        worker: str,
        now: int,
        holders: Callable[[Sequence[object]], list[str]],
        counts: Callable[[Any], bool] = lambda _: True,
    ) -> list[Kept]:
        """Those that are there and count, after ``now`` calls; and who holds them, where one more is made with each
        step."""
        made: dict[CodePlace, list[tuple[Any, int]]] = {}
        for reference, (place, calls) in self._made.items():
            if counts(reference):
                made.setdefault(place, []).append((reference, calls))
        found = []
        for place, each in made.items():
            grows = _one_a_step([calls for _, calls in each], now)
            held = holders([reference for reference, _ in each]) if grows else []
            found.append(Kept(worker, str(place), len(each), grows, held, function=place.function))
        return found


def _one_a_step(numbers: list[int], now: int) -> bool:
    """Whether something was made again and again until the end, with other calls between: after so many of them
    each. What is made while a program sets itself up has its work before it."""
    if len(numbers) < _STEPS_LEAST:
        return False
    gaps = [later - before for before, later in pairwise(numbers)]
    return min(gaps) > 1 and now - numbers[-1] <= 2 * max(gaps)
