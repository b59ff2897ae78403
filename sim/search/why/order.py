"""What is told where the order of two steps decides: what failed does the one first, what passes the other."""

from __future__ import annotations

from collections.abc import Mapping

from squall.sim.search.why.doing import Doing, called, doing, name
from squall.sim.search.why.flipped import Flipped, flipped, told
from squall.sim.search.why.matched import Hint, mixed_up, swapped, taken
from squall.sim.search.why.seen import Call
from squall.sim.search.why.told import Line, Why
from squall.sim.search.why.touched import OF_STORES, Shared, both, touches, touching
from squall.sim.search.why.witness import Witness
from squall.sim.world.places import CodePlace

#: calls that are shown of each run
SHOWN = 4


class Order:
    """``first``: what the run that fails does at ``step``, ``second``: what ``other``, which passes, has done before that,
    at ``last``. ``is_deadlock``: what both touch has no part in it."""

    def __init__(
        self,
        failing: Witness,
        other: Witness,
        step: int,
        last: int,
        names: Mapping[int, str],
        *,
        is_deadlock: bool,
    ) -> None:
        self._failing, self._other, self._step, self._names = failing, other, step, names
        self._is_deadlock = is_deadlock
        self.first = doing(failing, step, names)
        self.second = self._caused(doing(other, last, names))
        self._between = self._earlier()
        if self._between is None and self.first.who == self.second.who:
            self.first, self.second = self._told_apart(self.first), self._told_apart(self.second)
        self._shared: Shared | None = None
        if not is_deadlock:
            self._shared = both(
                touches(failing.acts(step), failing.lines),
                touches(other.acts(last), other.lines),
                keys=self.first.worker != self.second.worker,
            )

    def _told_apart(self, what: Doing) -> Doing:
        """Of calls that are the same in words: the arguments, or which one it is."""
        call = what.call
        if call is None or not call.function or self.first.call is self.second.call:
            return what
        calls = [c for each in (self.first, self.second) if (c := each.call) is not None]
        if len({each.arguments for each in calls}) > 1:
            who = what.who.replace(f"`{call.function}`", f"`{call.said}`", 1)
        else:
            same = [
                each.id
                for each in self._failing.calls.values()
                if (each.src, each.function, each.place) == (call.src, call.function, call.place)
            ]
            who = f"call {sum(id <= call.id for id in same)} of {what.who}"
        return what._replace(who=who)

    def why(self) -> Why:
        said, places = self._told()
        passing = self._around(self._other)
        # Where nothing has run, what became of those calls that it should have been.
        failing = self._around(self._failing) or [
            self._failing.calls.get(call.key, call) for call in passing
        ]
        return Why(
            verdict="order",
            said=said,
            failing=lines_of(failing, self._failing, self._names),
            passing=lines_of(passing, self._other, self._names),
            places=list(dict.fromkeys(place for place in places if place.file)),
        )

    def _told(self) -> tuple[list[str], list[CodePlace]]:
        """The best that can be said, and the lines that it names: of collectives, of messages, of lines, of calls."""
        found: list[Hint] = []
        if not self._calls_tell():
            found = taken(self._failing, self._other, self._step, self._names)
        mixed = mixed_up(self._failing, self._other, self._names)
        if mixed is not None:
            passing = Hint("In runs that pass all come to the same line.")
            cause = found or self._used_first()
            found = [*cause, mixed] if cause else [mixed, passing]
        found = found or swapped(self._failing, self._other, self._names)
        if found:
            return [each.text for each in found], [p for each in found for p in each.places]
        flip, shared = self._flipped(), self._shared
        places = [self.first.place, self.second.place]
        if self._between is not None:
            places.append(self._between.place)
        if flip is not None:
            said, shared = told(flip, self._names), flip.shared
            places += flip.places
        else:
            said = self._calls()
            if shared is not None:
                said.append(touching(shared))
                places += [shared.first.place, shared.second.place]
        earlier = self._looked(shared) if shared is not None and shared.first.writes else None
        if earlier is not None:
            said.append(
                f"What was read of it before, in `{earlier.function}` ({earlier}), is out of date then."
            )
            places.append(earlier)
        return said, places

    def _calls(self) -> list[str]:
        """The two, and what the caller of the second had called between."""
        first, second, between = self.first, self.second, self._between
        happened = f"{_upper(first.who)} {first.did}"
        passing = f"In runs that pass {second.who} {second.did} first."
        if between is None:
            return [f"{happened} before {second.who} {second.did}.", passing]
        within = called(between, self._names)
        # Whoever goes on with another call has read with the one and writes with the other.
        again = second.call is not None and second.call.function == between.function
        if again and self._was_over_first(between):
            return [
                f"{happened} while {within} was not over.",
                f"In runs that pass {within} was over first.",
            ]
        here, whose = within.split(" of ", 1)
        if second.who == within:
            return [f"{happened} between two calls of {here} by {whose}.", passing]
        where = f" ({between.place})" if between.place.file else ""
        return [f"{happened} between {here}{where} and {second.who}.", passing]

    def _flipped(self) -> Flipped | None:
        """Which lines came in another order, where no calls tell that better."""
        first, second, shared = self.first, self.second, self._shared
        if self._is_deadlock or self._calls_tell():
            return None
        found = flipped(self._failing, self._other, self._step)
        if found is None and shared is not None:
            return Flipped(shared, first.worker, second.worker, first.call, second.call)
        return found

    def _used_first(self) -> list[Hint]:
        """Uses of a key of a store that the step has brought into another order."""
        flip = flipped(self._failing, self._other, self._step, only=OF_STORES)
        if flip is None or not flip.is_mine:
            return []
        first, *others = told(flip, self._names)
        return [Hint(first, tuple(flip.places)), *map(Hint, others)]

    def _calls_tell(self) -> bool:
        """Whether one of them is a call, and it is the order of these two that differs: both touch the same, or are at
        least on one worker, and where it fails the second does not come first as well."""
        first, second = self.first, self.second
        if "runs" not in (first.kind, second.kind):
            return False
        if self._shared is None and first.worker != second.worker:
            return False
        ran = None if second.call is None else self._failing.calls.get(second.call.key)
        return second.kind != "runs" or ran is None or not 0 <= ran.began < first.event

    def _caused(self, second: Doing) -> Doing:
        """What a message of squall's own protocol sets off, where that is a function of the user's."""
        if second.kind in ("thread", "timeout"):
            return second
        if second.call is not None and second.call.function:
            return second
        first, other = self.first, self._other
        mine = None if first.call is None else other.calls.get(first.call.key)
        for call in other.on(second.worker):
            if call.began < second.event or not call.is_users or call is mine:
                continue
            if mine is None or mine.began < 0 or call.began < mine.began:
                did = f"ran on {name(call.dst, self._names)}"
                who = called(call, self._names)
                return Doing("runs", call.dst, who, did, call.began, call, call.place)
        return second

    def _looked(self, shared: Shared) -> CodePlace | None:
        """Where the task that goes on with the first step had read what both touch, before it waited."""
        failing = self._failing
        seen = touches(failing.before(failing.acts(self._step)), failing.lines)
        found = [
            each.place for each in seen if each.thing == shared.first.thing and not each.writes
        ]
        return found[-1] if found else None

    def _earlier(self) -> Call | None:
        """What the caller of the second had called there last, before the first."""
        first, second = self.first, self.second
        if first.kind != "runs" or second.kind != "runs" or first.worker != second.worker:
            return None
        if first.call is None or second.call is None or first.call.task == second.call.task:
            return None
        mine = [
            call
            for call in self._failing.on(first.worker)
            if (call.src, call.task) == (second.call.src, second.call.task)
            and call.began < first.call.began
            and call.is_users
        ]
        return mine[-1] if mine else None

    def _was_over_first(self, call: Call) -> bool:
        """Whether a call was not over when the first happened, but is where the run passes."""
        first, other = self.first, self._other
        there = other.calls.get(call.key)
        mine = None if first.call is None else other.calls.get(first.call.key)
        if 0 <= call.ended < first.event or there is None or mine is None:
            return False
        return 0 <= there.ended < mine.began

    def _around(self, witness: Witness) -> list[Call]:
        """The calls of the same callers on these workers, from the one before to the ones after."""
        both_calls = [each.call for each in (self.first, self.second) if each.call is not None]
        tasks = {call.task: call.src for call in both_calls}
        found = [
            call
            for worker in sorted({self.first.worker, self.second.worker})
            for call in witness.on(worker)
            if call.is_users and tasks.get(call.task) == call.src
        ]
        found.sort(key=lambda call: call.began)
        before = None if self._between is None else witness.calls.get(self._between.key)
        start = self.first.event if before is None else before.began
        found = [call for call in found if call.began >= start]
        shown = found[:SHOWN]
        mine = None if self.first.call is None else self.first.call.key
        late = [call for call in found[SHOWN:] if call.key == mine]
        return [*shown[:-1], late[0]] if late else shown


def lines_of(calls: list[Call], witness: Witness, names: Mapping[int, str]) -> list[Line]:
    """Calls as they are shown. ``witness``: of their run."""
    return [
        Line(
            name(call.dst, names),
            name(call.src, names),
            call.said,
            call.result if witness.calls.get(call.key) is call else "",
            str(call.place),
            witness.state(call),
        )
        for call in calls
    ]


def _upper(text: str) -> str:
    """A phrase at the beginning of a sentence; names stay as they are."""
    return (
        text[:1].upper() + text[1:] if text.startswith(("the ", "a ", "thread ", "call ")) else text
    )
