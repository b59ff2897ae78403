"""The shortest way to something that does not hold: first come, first served, but for few names.

An order is said by a list of names that go first wherever they can (see
:class:`~squall.sim.world.scripted_order.ListedOrder`); everything else is first come, first served. Its
length is the number of names, and one more if something goes wrong. All lists of one length are
tried before any longer one, in all worlds, so that the first that fails is as short as any.

No list is left out. Take one that is minimal: without any of its names the run is another one. Where its
run first differs from that of a part of it, it chooses a name which could go in the run of the part too,
and did not. So it is made from the empty list by putting in, one after the other and at any place,
names that could have gone and did not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from squall.model.events.run import Violation
from squall.sim.explore.alternatives import PassedOver
from squall.sim.explore.campaign import for_faults, with_one_fault
from squall.sim.explore.counterexample import fewest, plain
from squall.sim.explore.execution import How
from squall.sim.explore.programs import ProgramSubject
from squall.sim.explore.search import Budget, explore
from squall.sim.explore.tree import Explored
from squall.sim.explore.worlds import SmallWorld
from squall.sim.scenario import Scenario
from squall.sim.world.controlled_time import Grain, GrainError, NotExplorableError
from squall.sim.world.schedule import Schedule

#: what stands for a property where the run broke off
CRASH = "crash"

Names = tuple[int, ...]


class WorldCase(NamedTuple):
    """A world in a grain, with a fault or without one (then ``fault`` is empty)."""

    world: str
    grain: Grain
    fault: str
    scenario: Scenario

    def ordered(self, names: Names) -> Scenario:
        """The scenario with these going first."""
        schedule = Schedule(grain=self.grain, ordered=False, chosen=names)
        return self.scenario.in_world(faults=replace(self.scenario.faults, schedule=schedule))


class Tried(NamedTuple):
    """One run: the names that went first, what did not hold, and whether there is no shorter way
    to anything that does not hold, in any of the worlds."""

    case: WorldCase
    names: Names
    violations: tuple[Violation, ...]
    shortest: bool = True

    @property
    def length(self) -> int:
        return len(self.names) + bool(self.case.fault)


@dataclass
class _Lists:
    """The lists of one length of a case, each with the names that it can be made longer with."""

    case: WorldCase
    subject: ProgramSubject
    lists: dict[Names, Names] = field(default_factory=dict)

    def longer(self) -> dict[Names, None]:
        """The lists with one name more."""
        return {
            (*names[:at], name, *names[at:]): None
            for names, passed_over in self.lists.items()
            for name in passed_over
            if name not in names
            for at in range(len(names) + 1)
        }


class Shortest:
    """Tries worlds with a bug planted.

    ``faults_first``: whether, of ways of one length, those with a fault come first. ``most``: the
    length up to which all are tried; longer ones are looked for by an exploration of each world
    (unless not ``longer``) for as long as it says, those with the most time first, and made short.
    """

    def __init__(
        self,
        worlds: Iterable[SmallWorld],
        *,
        faults_first: bool = False,
        most: int = 1,
        longer: bool = True,
    ) -> None:
        self._worlds = list(worlds)
        self._faults_first = faults_first
        self._most = most
        self._longer = longer
        #: by world: what was sent in the plain run of it
        self._sent: dict[str, Explored] = {}

    def tries(self, before: Callable[[WorldCase, Names], object]) -> Iterator[Tried]:
        """One run after the other, shorter ways first; ``before`` is called before each."""
        plain_ones = [
            _lists(each, grain, "", plain(each.scenario))
            for each in self._worlds
            for grain in each.grains
        ]
        for lists in plain_ones:
            yield from self._try(lists, {(): None}, before)
        faulty = [_lists(*each) for each in self._with_faults()]
        for length in range(1, self._most + 1):
            kinds = [plain_ones, faulty]
            for kind in reversed(kinds) if self._faults_first else kinds:
                for lists in kind:
                    new: dict[Names, None] = {(): None}
                    if kind is plain_ones or length > 1:
                        new = lists.longer()
                    yield from self._try(lists, new, before)
        if self._longer:
            for seconds, lists in self._to_explore(plain_ones, faulty):
                yield from self._explored(lists, seconds, before)

    def _to_explore(
        self, plain_ones: list[_Lists], faulty: list[_Lists]
    ) -> list[tuple[float, _Lists]]:
        worlds = {each.name: each for each in self._worlds}
        found = [(worlds[each.case.world].seconds, each) for each in plain_ones]
        found += [(worlds[each.case.world].faulty_seconds, each) for each in faulty]
        # the longest first, which are those of one bug's own program
        return sorted((each for each in found if each[0]), key=lambda each: -each[0])

    def _try(
        self, lists: _Lists, new: dict[Names, None], before: Callable[[WorldCase, Names], object]
    ) -> Iterator[Tried]:
        lists.lists = {}
        for names in new:
            before(lists.case, names)
            order = PassedOver(names, grain=lists.case.grain, ordered=False)
            try:
                ended = lists.subject(order)
            except (GrainError, NotExplorableError):
                continue
            except Exception as error:  # it was so broken that it could not be judged
                what = f"{type(error).__name__}: {error}"
                yield Tried(lists.case, names, (Violation(CRASH, what, "a verdict", "none"),))
                continue
            if not names and not lists.case.fault:
                self._sent.setdefault(lists.case.world, Explored(sent=dict(ended.sent)))
            lists.lists[names] = tuple(order.passed_over)
            yield Tried(lists.case, names, ended.violations)

    def _with_faults(self) -> Iterator[tuple[SmallWorld, Grain, str, Scenario]]:
        """Each world in its coarsest grain with each fault."""
        for world in self._worlds:
            sent = self._sent.get(world.name)
            program = world.scenario.program
            if sent is None or program is None or world.scenario.world.shut_down_early:
                continue
            if program.endings:
                continue  # a group ends when all have said so, for which there is no limit of time
            scenario = for_faults(plain(world.scenario))
            for words, faulty in with_one_fault(scenario, sent):
                yield world, world.grains[0], words, faulty

    def _explored(
        self, lists: _Lists, seconds: float, before: Callable[[WorldCase, Names], object]
    ) -> Iterator[Tried]:
        """What an exploration finds, made as short as can be done by leaving out."""
        case = lists.case
        try:
            explored = explore(
                lists.subject,
                How(case.grain, ordered=False),
                budget=Budget(seconds=seconds),
                stop_at_first=True,
                on_execution=lambda _: before(case, ()),
            )
        except (GrainError, NotExplorableError, RuntimeError):
            return
        for found in explored.found.values():
            key = found.violation.property, found.violation.what

            def shows(names: Names, key: tuple[str, str] = key) -> bool:
                before(case, names)
                ended = lists.subject(PassedOver(names, grain=case.grain, ordered=False))
                return any((each.property, each.what) == key for each in ended.violations)

            names = fewest(found.choices, shows)
            shortest = len(names) + bool(case.fault) <= self._most + 1
            yield Tried(case, names, (found.violation,), shortest)
            return


def _lists(world: SmallWorld, grain: Grain, fault: str, scenario: Scenario) -> _Lists:
    return _Lists(WorldCase(world.name, grain, fault, scenario), ProgramSubject(scenario))
