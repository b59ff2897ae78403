"""How far a scenario is from the plainest one, and how to say it.

Shrinking looks for the least cost: fewest deviations from the plain run (first come first served,
no latency, no faults) first, then size, then values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import NamedTuple

from squall.model.events.names import number_of
from squall.model.shrink.simplifications import complexity, size
from squall.sim.faults.plan import Fault, Schedule
from squall.sim.scenario import Scenario
from squall.sim.trainings.training import training_in
from squall.sim.world.latency import parse_latency

#: what counts for a deviation that is drawn and so may be any number of them
_DRAWN = 1_000_000


class Cost(NamedTuple):
    """Compared from left to right; smaller is better."""

    deviations: int
    size: int
    values: int


class Extent(NamedTuple):
    """How large a scenario is, for people: ``faults`` are items of the plan and
    deviations from first come, first served. ``operations`` None: it is a script."""

    workers: int | None
    operations: int | None
    faults: int

    def __str__(self) -> str:
        parts = [number_of(self.workers, "worker")] if self.workers is not None else []
        if self.operations is not None:
            parts.append(number_of(self.operations, "operation"))
        return ", ".join([*parts, number_of(self.faults, "fault")])


def cost(scenario: Scenario) -> Cost:
    """The cost of a scenario."""
    program = scenario.program
    values = 0 if program is None else complexity(program)
    values += sum(_value(item) for _, _, item in scenario.faults.items())
    values += (scenario.seed != 0) + (scenario.faults.schedule != Schedule())
    values += scenario.world.latency != "0"
    parts = _size_of_script(scenario) if program is None else size(program)
    return Cost(_deviations(scenario), parts, values)


def _size_of_script(scenario: Scenario) -> int:
    training = None if scenario.script is None else training_in(scenario.script.text)
    return (scenario.workers or 0) if training is None else training.size


def extent(scenario: Scenario) -> Extent:
    """How large a scenario is."""
    schedule = scenario.faults.schedule
    order = len(schedule.late) + len(schedule.yields) + len(schedule.chosen)
    order += schedule.order != "fifo"
    return Extent(scenario.workers, scenario.operations, len(scenario.faults) + order)


def is_drawn(scenario: Scenario) -> bool:
    """Whether random numbers decide anything about the run."""
    return not scenario.faults.is_concrete or parse_latency(scenario.world.latency).is_random


def _deviations(scenario: Scenario) -> int:
    plan, schedule = scenario.faults, scenario.faults.schedule
    count = len(schedule.late) + len(schedule.yields) + len(schedule.chosen)
    count += _DRAWN * (schedule.order != "fifo")
    count += _DRAWN * parse_latency(scenario.world.latency).is_random
    count += (
        scenario.world.shut_down_early
        + scenario.world.skip_handshakes
        + (scenario.world.bandwidth_bytes_per_s is not None)
    )
    for _, _, item in plan.items():
        nth = getattr(item, "nth", ())  # one number, of a fault inside a worker
        named = len(nth) if isinstance(nth, tuple) else 1
        count += _DRAWN if item.draws else max(1, named)
    return count


def _value(item: Fault) -> int:
    """How much of an item is not at its simplest; which messages it means does not count."""
    count = 0
    for field in fields(item):
        value = getattr(item, field.name)
        if field.name in ("nth", "types", "src", "dst", "worker", "kind"):
            continue
        if value != field.default:
            count += 1 + (len(repr(value)) if isinstance(value, float) else 0)
    return count


# -- in words -------------------------------------------------------------------------------------


def deviations(scenario: Scenario) -> str:
    """What is not plain about the run: "FIFO everywhere except: ..."."""
    found = list(_told(scenario))
    return f"FIFO everywhere except: {'; '.join(found)}" if found else "FIFO everywhere, no faults"


def _told(scenario: Scenario) -> Iterator[str]:
    plan, schedule = scenario.faults, scenario.faults.schedule
    if parse_latency(scenario.world.latency).is_random:
        yield f"latency {scenario.world.latency} drawn from seed {scenario.seed}"
    if schedule.order != "fifo":
        yield f"order {schedule.order} drawn from seed {scenario.seed}"
    if schedule.late:
        yield "later than others of its instant: " + ", ".join(f"#{n}" for n, _ in schedule.late)
    if schedule.yields:
        yield "others first at scheduling points " + ", ".join(f"#{n}" for n in schedule.yields)
    if schedule.chosen:
        yield f"{len(schedule.chosen)} steps of the grain {schedule.grain} go first"
    if scenario.world.shut_down_early:
        yield "workers shut down while others are at work"
    if scenario.world.skip_handshakes:
        yield "the group begins and ends without a round of calls"
    if scenario.world.bandwidth_bytes_per_s is not None:
        yield f"bandwidth {scenario.world.bandwidth_bytes_per_s:g} bytes/s"
    yield from (item.told({}) for _, _, item in plan.items())
