"""What decided a failure: the order of two steps, or a fault, and what both runs did around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from squall.model.events.run import Run
from squall.sim.scenario import Scenario
from squall.sim.search.replay_with_mutant import again
from squall.sim.search.why import removed
from squall.sim.search.why.always import hints, waiting_at
from squall.sim.search.why.deadlock import stuck
from squall.sim.search.why.doing import Doing, doing, name
from squall.sim.search.why.faults import like
from squall.sim.search.why.faults import told as fault_told
from squall.sim.search.why.flipped import flipped, told
from squall.sim.search.why.marks import Mark, of_fault, of_step
from squall.sim.search.why.matched import taken
from squall.sim.search.why.order import SHOWN, Order, lines_of
from squall.sim.search.why.search import RUN_S, Moment, Search
from squall.sim.search.why.seen import Call
from squall.sim.search.why.told import PictureRun, Why
from squall.sim.search.why.touched import Touch, by_name, touches
from squall.sim.search.why.witness import Witness
from squall.sim.world.steering import Path, Turn

#: what is told of a failure that no order avoids
_HINTS = 4

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
        unchecked = telling.run.unchecked
        said = "" if unchecked is None else f", in which nothing was checked: {unchecked}"
        raise NotFailingError(f"nothing is wrong with this run{said}")
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
        calls, named = self.run.messages.get("PYTHON_CALL"), self.run.names
        numbers = named if calls else {*named, *range(self.run.workers or 0)}
        self.names: Mapping[int, str] = {
            number: named[number] if calls else f"rank {number}" for number in numbers
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
            run = again(self.search.scenario, watcher=witness, seconds=RUN_S)
        witness.waits, witness.sees_functions = run.when_stuck.waiting, run.engine == "port"
        return run, witness

    def _passing(self, path: Path, at_steps: tuple[int, ...] = ()) -> Witness:
        self.passing = self._seen(path, at_steps)
        return self.passing[1]

    def why(self) -> Why:
        search, witness = self.search, self.witness
        found = self._found()
        self._tell_stuck(found)
        self._tell_died(found)
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
        found.waiting = self.stuck.values

    def _tell_died(self, found: Why) -> None:
        """A thread that an error has ended, first, if none of that line is where it passes."""
        well = {each.place for each in self.passing[1].died} if self.passing is not None else set()
        for each in self.witness.died[:1]:
            if each.place not in well:
                who = f"Thread {each.thread} of {name(each.worker, self.names)}"
                found.said.insert(0, f"{who} raised {each.error}, at {each.place}.")
                found.places = list(dict.fromkeys([each.place, *found.places]))

    def _shown(self) -> list[PictureRun]:
        failing = {mark.failing: mark.text for mark in self.marks if mark.failing >= 0}
        passing = {mark.passing: mark.text for mark in self.marks if mark.passing >= 0}
        found = [PictureRun(self.run, list(self.witness.calls.values()), failing)]
        if self.passing is not None:
            run, witness = self.passing
            found.append(PictureRun(run, list(witness.calls.values()), passing))
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
            same = like(calls[0], other)[:SHOWN] if calls else []
            changed = self._changed_twice(calls)
            if changed:
                said.append(f"Each time it uses and changes {by_name(changed)}.")
                places += [each.place for each in changed]
            return Why(
                verdict="fault",
                said=said,
                failing=lines_of(calls, self.witness, self.names),
                passing=lines_of(same, other, self.names),
                places=places,
            )
        if search.before is None:
            return self._within(doing(self.witness, moment.step, self.names), moment)
        step, last = moment.step, search.before[-1].step - 1
        other = self._passing(search.before, (last, last + 1))
        order = Order(self.witness, other, step, last, self.names, is_deadlock=self._is_deadlock)
        self.marks = [
            of_step(what, at, own, self.witness, other)
            for what, at, own in ((order.first, step, self.witness), (order.second, last, other))
        ]
        return order.why()

    def _changed_twice(self, calls: list[Call]) -> list[Touch]:
        """What a function changes that has run more than once."""
        witness = self.witness
        ran = [call for call in calls if call.began >= 0]
        if len(ran) < 2:
            return []
        tasks = {id for id in witness.tasks if witness.call_of(id) is ran[1]}
        acts = [each for each in witness.lines.done if each.task in tasks]
        found = touches(acts, witness.lines)
        changed = {each.thing for each in found if each.writes}
        return [each for each in found if each.thing in changed]

    def _within(self, first: Doing, moment: Moment) -> Why:
        """What is told where nothing can come before the step as a whole: within it something comes too early."""
        said = []
        places = [first.place]
        other = self._passing((Turn(moment.step, moment.tail),))
        self.marks = [of_step(first, moment.step, self.witness, self.witness, other)]
        messages = taken(self.witness, other, moment.step, self.names)
        flip = None if messages else flipped(self.witness, other, moment.step)
        if messages:
            said += [hint.text for hint in messages]
            places += [place for hint in messages for place in hint.places]
        elif flip is not None:
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
            found = self._always()
            found.verdict = "unknown"
            if not self.search.orders:
                found.said.append(f"{over} before another order was tried.")
            return found
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
        orders = self.search.orders
        which = (
            "the other order that was"
            if orders == 1
            else f"each of {orders} other orders that were"
        )
        tried = f"It fails in {which} tried{faults}"
        if not self.search.out_of_time and not self.search.interrupted:
            said.append(f"{tried}: it does not depend on what comes first.")
        elif self.search.orders:
            said.append(f"{tried}.")
        places = [place for hint in found for place in hint.places]
        places += [error.place for error in self.witness.errors[:1]]
        return Why(verdict="always", said=said, places=list(dict.fromkeys(places)))
