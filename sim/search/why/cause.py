"""What decided a failure: the order of two steps, or a fault, and what both runs did around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from squall.model.events.run import Run
from squall.sim.scenario import Scenario
from squall.sim.search.again import again
from squall.sim.search.why import removed
from squall.sim.search.why.always import hints, mixed_up, waiting_at
from squall.sim.search.why.doing import Doing, called, doing, name
from squall.sim.search.why.faults import like
from squall.sim.search.why.faults import told as fault_told
from squall.sim.search.why.flipped import Flipped, flipped, told
from squall.sim.search.why.marks import Mark, of_fault, of_step
from squall.sim.search.why.search import RUN_S, Moment, Search
from squall.sim.search.why.seen import Call
from squall.sim.search.why.stuck import stuck
from squall.sim.search.why.told import Line, Shown, Why
from squall.sim.search.why.touched import Shared, Touch, both, by_name, touches, touching
from squall.sim.search.why.witness import Witness
from squall.sim.world.places import NOWHERE, Place
from squall.sim.world.steering import Path, Turn

#: what is told of a failure that no order avoids
_HINTS = 4
#: calls that are shown of each run
_SHOWN = 4

#: what is wrong with a run, a line each
Problems = Callable[[Run], list[str]]


class NotFailingError(ValueError):
    """The scenario does not fail: there is nothing to look for."""


def why(
    scenario: Scenario,
    problems: Problems,
    *,
    seconds: float,
    on_run: Callable[[int], object] = lambda _: None,
) -> Why:
    """What decided that this scenario fails. ``problems`` says what is wrong with a run, a line each. Raises
    NotFailingError if nothing is."""
    search = Search(scenario, lambda run: not problems(run), seconds, on_run).run()
    telling = Telling(search)
    wrong = problems(telling.run)
    if not wrong:
        raise NotFailingError("nothing is wrong with this run")
    found = telling.why()
    found.problems = wrong
    return found


class Telling:
    """Puts what a search has found into words."""

    def __init__(self, search: Search) -> None:
        self.search = search
        at_steps = () if search.moment is None else (search.moment.step,)
        self.run, self.witness = self._seen((), at_steps)
        #: whether it fails since nothing could happen any more
        self.stuck = stuck(self.run, self.witness.stuck, self._error_s())
        #: the run that passes, and what both are to have pointed out
        self.passing: tuple[Run, Witness] | None = None
        self.marks: list[Mark] = []
        self.names: Mapping[int, str] = {
            number: name if self.run.messages.get("PYTHON_CALL") else f"rank {number}"
            for number, name in self.run.names.items()
        }

    @property
    def _is_deadlock(self) -> bool:
        """What several touch has no part in that."""
        return self.stuck is not None and bool(self.stuck.hang.cycle)

    def _error_s(self) -> float | None:
        """When the first error was raised."""
        records, errors = self.run.records, self.witness.errors
        return float(records[min(errors[0].event, len(records) - 1)][0]) if errors else None

    def _seen(self, path: Path, at_steps: tuple[int, ...] = ()) -> tuple[Run, Witness]:
        witness = Witness(path, at_steps)
        with witness.lines.noted(), removed.noted(witness.note_removed):
            return again(self.search.scenario, watcher=witness, seconds=RUN_S), witness

    def _passing(self, path: Path, at_steps: tuple[int, ...] = ()) -> Witness:
        self.passing = self._seen(path, at_steps)
        return self.passing[1]

    def why(self) -> Why:
        search, witness = self.search, self.witness
        found = self._found()
        self._tell_stuck(found)
        # The problems of a run that hangs name these lines.
        found.places += [place for place in waiting_at(self.run) if place not in found.places]
        for error in witness.errors[:1]:
            found.raised, found.variables = error.place, error.variables
        found.steps, found.events = search.steps, len(self.run.records)
        found.runs, found.orders, found.failed = search.runs, search.orders, search.failed
        found.out_of_time, found.interrupted = search.out_of_time, search.interrupted
        if search.moment is not None:
            found.step = search.moment.step
            found.event = witness.events_at[found.step]
            found.time_s = float(self.run.records[min(found.event, found.events - 1)][0])
        found.shown = self._shown()
        return found

    def _tell_stuck(self, found: Why) -> None:
        """Who waited for what, first where that is the cause: in a circle, or whatever the order."""
        if self.stuck is None or found.verdict == "fault":
            return
        places = self.stuck.places(code.co_filename for code in self.witness.lines.globals)
        if self.stuck.seconds:  # else it is the first of the problems
            is_cause = self._is_deadlock or found.verdict == "always"
            found.said.insert(0 if is_cause else len(found.said), self.stuck.said)
        found.places = list(dict.fromkeys([*places, *found.places]))

    def _shown(self) -> list[Shown]:
        failing = {mark.failing: mark.text for mark in self.marks if mark.failing >= 0}
        passing = {mark.passing: mark.text for mark in self.marks if mark.passing >= 0}
        found = [Shown(self.run, list(self.witness.calls.values()), failing)]
        if self.passing is not None:
            run, witness = self.passing
            found.append(Shown(run, list(witness.calls.values()), passing))
        return found

    def _found(self) -> Why:
        search, moment = self.search, self.search.moment
        if search.is_listed:
            said = [
                "The order of this run is listed step by step, by squall explore: no other one was tried."
            ]
            return Why(verdict="unknown", said=said)
        if moment is None or not search.settled:
            return self._unknown() if search.out_of_time or search.interrupted else self._always()
        faults = self.witness.faults_at(moment.step)
        if faults:
            said, calls, places = fault_told(faults, self.witness, self.names)
            other = self._passing((Turn(moment.step, moment.tail),))
            self.marks = of_fault(faults[0], said[0], calls, self.witness, other)
            same = like(calls[0], other)[:_SHOWN] if calls else []
            changed = self._changed_twice(calls)
            if changed:
                said.append(f"Each time it uses and changes {by_name(changed)}.")
                places += [each.place for each in changed]
            return Why(
                verdict="fault",
                said=said,
                failing=self._lines(calls),
                passing=self._lines(same),
                places=places,
            )
        first = doing(self.witness, moment.step, self.names)
        if search.before is None:
            return self._within(first, moment)
        return self._order(first, search.before)

    def _changed_twice(self, calls: list[Call]) -> list[Touch]:
        """What a function changes that has run more than once."""
        witness = self.witness
        ran = [call for call in calls if call.began >= 0]
        if len(ran) < 2:
            return []
        tasks = {id for id in witness.tasks if witness.call_of(id) is ran[1]}
        lines = [each for each in witness.lines.executed if each.task in tasks]
        found = touches(lines, witness.lines)
        changed = {(each.kind, each.name) for each in found if each.writes}
        return [each for each in found if (each.kind, each.name) in changed]

    def _within(self, first: Doing, moment: Moment) -> Why:
        """What is told where nothing can come before the step as a whole: within it something comes too early."""
        said = []
        places = [first.place]
        other = self._passing((Turn(moment.step, moment.tail),))
        self.marks = [of_step(first, moment.step, self.witness, self.witness, other)]
        flip = flipped(self.witness, other, moment.step)
        if flip is not None:
            said += told(flip, self.names)
            places += flip.places
        else:
            seen = hints(self.run, self.witness, self.names)[:_HINTS]
            said += [hint.text for hint in seen]
            places += [place for hint in seen for place in hint.places]
        said.append(f"After {first.who} {first.did}, no other order that was tried passes.")
        return Why(verdict="step", said=said, places=[place for place in places if place.file])

    def _unknown(self) -> Why:
        over = "The search was interrupted" if self.search.interrupted else "The time was over"
        if self.search.moment is None:
            return Why(
                verdict="unknown", said=[f"{over} before another order was found that passes."]
            )
        events_at = self.witness.events_at
        first, last = (
            events_at[self.search.moment.step],
            events_at[min(self.search.latest, len(events_at) - 1)],
        )
        said = [
            f"{over}: what is known is that it was decided between events {first:,} and {last:,}."
        ]
        return Why(verdict="unknown", said=said)

    def _always(self) -> Why:
        faults = ", also without the faults" if self.search.scenario.faults.goes_wrong else ""
        found = hints(self.run, self.witness, self.names)[:_HINTS]
        said = [hint.text for hint in found]
        said.append(
            f"It fails in each of {self.search.orders} other orders that were tried{faults}: it does not "
            "depend on what comes first."
        )
        places = [place for hint in found for place in hint.places]
        places += [error.place for error in self.witness.errors[:1]]
        return Why(verdict="always", said=said, places=list(dict.fromkeys(places)))

    # -- the order of two steps -----------------------------------------------------------------

    def _order(self, first: Doing, before: Path) -> Why:
        assert self.search.moment is not None, "something passes"
        step, last = self.search.moment.step, before[-1].step - 1
        other = self._passing(before, (last, last + 1))
        second = self._caused(doing(other, last, self.names), other, first)
        self.marks = [
            of_step(what, at, own, self.witness, other)
            for what, at, own in ((first, step, self.witness), (second, last, other))
        ]
        between = self._earlier(first, second)
        # Whoever goes on with another call has read with the one and writes with the other.
        again = (
            between is not None
            and second.call is not None
            and second.call.function == between.function
        )
        if between is not None and again and self._was_over_first(between, first, other):
            within = called(between, self.names)
            said = [f"{_upper(first.who)} {first.did} while {within} was not over."]
            said.append(f"In runs that pass {within} was over first.")
        elif between is not None:
            here, whose = called(between, self.names).split(" of ", 1)
            where = f" ({between.place})" if between.place.file else ""
            said = [f"{_upper(first.who)} {first.did} between {here}{where} and {second.who}."]
            if second.who == f"{here} of {whose}":
                said = [f"{_upper(first.who)} {first.did} between two calls of {here} by {whose}."]
        else:
            said = [f"{_upper(first.who)} {first.did} before {second.who} {second.did}."]
        if len(said) == 1:
            said.append(f"In runs that pass {second.who} {second.did} first.")
        places = [first.place, second.place, between.place if between else NOWHERE]
        shared = None if self._is_deadlock else self._shared(first, step, second, other, last)
        flip = self._flipped(step, other, shared, first, second)
        if flip is not None:
            said = told(flip, self.names)
        elif shared is not None:
            said.append(touching(shared))
        shared = flip.shared if flip is not None else shared
        if shared is not None:
            places += [shared.first, shared.second] if flip is None else flip.places
            earlier = self._looked(step, shared)
            if earlier is not None:
                said.append(
                    f"What was read of it before, in `{earlier.function}` ({earlier}), is out of date then."
                )
                places.append(earlier)
        mixed = mixed_up(self.witness, other, self.names)
        if mixed is not None:
            said = [mixed.text, "In runs that pass all come to the same line."]
            places = [*mixed.places]
        tasks = {each.call.task: each.call.src for each in (first, second) if each.call is not None}
        return Why(
            verdict="order",
            said=said,
            failing=self._lines(self._around(self.witness, first, second, between, tasks)),
            passing=self._lines(self._around(other, first, second, between, tasks)),
            places=list(dict.fromkeys(place for place in places if place.file)),
        )

    def _flipped(
        self, step: int, other: Witness, shared: Shared | None, first: Doing, second: Doing
    ) -> Flipped | None:
        """Which lines came in another order, where no calls tell that better."""
        if self._is_deadlock or self._calls_tell(shared, first, second):
            return None
        found = flipped(self.witness, other, step)
        if found is None and shared is not None:
            return Flipped(shared, first.worker, second.worker, first.call, second.call)
        return found

    def _calls_tell(self, shared: Shared | None, first: Doing, second: Doing) -> bool:
        """Whether one of them is a call, and it is the order of these two that differs: both touch the same, or are at
        least on one worker, and where it fails the second does not come first as well."""
        if "runs" not in (first.kind, second.kind):
            return False
        if shared is None and first.worker != second.worker:
            return False
        ran = None if second.call is None else self.witness.calls.get(second.call.key)
        return second.kind != "runs" or ran is None or not 0 <= ran.began < first.event

    def _caused(self, second: Doing, other: Witness, first: Doing) -> Doing:
        """What a message of squall's own protocol sets off, where that is a function of the user's."""
        if second.kind in ("thread", "timeout") or (
            second.call is not None and second.call.function
        ):
            return second
        mine = None if first.call is None else other.calls.get((first.call.src, first.call.id))
        for call in other.on(second.worker):
            if call.began < second.event or not call.is_users or call is mine:
                continue
            if mine is None or mine.began < 0 or call.began < mine.began:
                did = f"ran on {name(call.dst, self.names)}"
                return Doing(
                    "runs", call.dst, called(call, self.names), did, call.began, call, call.place
                )
        return second

    def _shared(
        self, first: Doing, step: int, second: Doing, other: Witness, last: int
    ) -> Shared | None:
        """What both touch: of the first in the failing run, of the second in the one that passes."""
        return both(
            touches(self.witness.acts(step), self.witness.lines),
            touches(other.acts(last), other.lines),
            stores=first.worker != second.worker,
        )

    def _looked(self, step: int, shared: Shared) -> Place | None:
        """Where the task that goes on with the first step had read what both touch, before it waited."""
        witness = self.witness
        seen = touches(witness.before(witness.acts(step)), witness.lines)
        found = [
            each.place
            for each in seen
            if (each.kind, each.name) == (shared.kind, shared.name) and not each.writes
        ]
        return found[-1] if found else None

    def _earlier(self, first: Doing, second: Doing) -> Call | None:
        """What the caller of ``second`` had called there last, before ``first``."""
        if first.kind != "runs" or second.kind != "runs" or second.call is None:
            return None
        if (
            first.worker != second.worker
            or first.call is None
            or first.call.task == second.call.task
        ):
            return None
        mine = [
            call
            for call in self.witness.on(first.worker)
            if (call.src, call.task) == (second.call.src, second.call.task)
            and call.began < first.call.began
            and call.is_users
        ]
        return mine[-1] if mine else None

    def _was_over_first(self, call: Call, first: Doing, other: Witness) -> bool:
        """Whether a call was not over when ``first`` happened, but is where the run passes."""
        there = other.calls.get(call.key)
        mine = None if first.call is None else other.calls.get(first.call.key)
        if 0 <= call.ended < first.event or there is None or mine is None:
            return False
        return 0 <= there.ended < mine.began

    def _around(
        self,
        witness: Witness,
        first: Doing,
        second: Doing,
        between: Call | None,
        tasks: Mapping[int, int],
    ) -> list[Call]:
        """The calls of the same callers on these workers, from the one before to the ones after."""
        workers = {first.worker, second.worker}
        found = [
            call
            for worker in sorted(workers)
            for call in witness.on(worker)
            if call.is_users and tasks.get(call.task) == call.src
        ]
        found.sort(key=lambda call: call.began)
        before = None if between is None else witness.calls.get((between.src, between.id))
        start = first.event if before is None else before.began
        found = [call for call in found if call.began >= start]
        shown = found[:_SHOWN]
        mine = None if first.call is None else (first.call.src, first.call.id)
        late = [call for call in found[_SHOWN:] if (call.src, call.id) == mine]
        return [*shown[:-1], late[0]] if late else shown

    def _lines(self, calls: list[Call]) -> list[Line]:
        return [
            Line(
                name(call.dst, self.names),
                name(call.src, self.names),
                call.said,
                call.result,
                str(call.place),
            )
            for call in calls
        ]


def _upper(text: str) -> str:
    """A phrase at the beginning of a sentence; names stay as they are."""
    return text[:1].upper() + text[1:] if text.startswith(("the ", "a ", "thread ")) else text
