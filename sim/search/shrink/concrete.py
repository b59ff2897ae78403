"""Replaces what a scenario draws by lists: each latency, each deviation of the order.

The run stays the same, and needs no random number any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from squall.model.events.digest import Record
from squall.model.events.run import Run
from squall.model.program.variants import under_faults
from squall.real.tracing import MESSAGE_DELIVERED, MESSAGE_SENT
from squall.sim.faults.concrete import concrete as concrete_plan
from squall.sim.faults.plan import Delay, Schedule
from squall.sim.programs.run import MAX_STEPS, run_program
from squall.sim.scenario import Scenario
from squall.sim.world.latency import parse_latency


def concrete(scenario: Scenario) -> Iterator[Scenario]:
    """Scenarios that should make the same run as ``scenario`` with fewer random draws or none, those
    with none first."""
    assert scenario.program is not None, "a script's choices cannot be written down"
    # Runs under faults have no stories and no exchanges of objects.
    scenario = replace(scenario, work=under_faults(scenario.program))
    run = _run(scenario)
    log = run.cluster.schedule_log
    schedule = log.schedule() if log is not None else None
    records = run.records
    written = scenario.in_world(faults=concrete_plan(scenario.faults, records, schedule))
    if _has_latencies(written):
        # Without latency fewer tasks are ready at once, so positions in the order mean something
        # else.
        without = _without_latency(written, records)
        again = _run(_with_schedule(without, scenario.faults.schedule))
        log = again.cluster.schedule_log
        if log is not None:
            yield _with_schedule(without, log.schedule())
        yield without
        yield _without_latency(scenario, records)
    yield written
    yield _with_schedule(written, scenario.faults.schedule)


def _run(scenario: Scenario) -> Run:
    """A run as a campaign does one under faults, with a log of its order."""
    assert scenario.program is not None
    return run_program(
        scenario.program,
        faults=scenario.faults,
        recovers=True,
        raises=False,
        seed=scenario.seed,
        latency=scenario.world.latency,
        bandwidth_bytes_per_s=scenario.world.bandwidth_bytes_per_s,
        rpc_timeout_s=scenario.world.rpc_timeout_s,
        max_steps=MAX_STEPS,
        record_schedule=True,
    )


def _with_schedule(scenario: Scenario, schedule: Schedule) -> Scenario:
    return scenario.in_world(faults=replace(scenario.faults, schedule=schedule))


def _has_latencies(scenario: Scenario) -> bool:
    """Whether latencies are drawn, and nothing else counts the messages."""
    return parse_latency(scenario.world.latency).is_random and not scenario.faults.messages


def _without_latency(scenario: Scenario, records: Sequence[Record]) -> Scenario:
    """The scenario without latency, each message delayed by what it took in this run."""
    plan = replace(scenario.faults, messages=tuple(_delays(records)), begin="launch")
    return scenario.in_world(latency="0", bandwidth_bytes_per_s=None, faults=plan)


def _delays(records: Sequence[Record]) -> Iterator[Delay]:
    counts: Counter[tuple[str, int, int]] = Counter()
    took = {record[4][0]: record[4][5] for record in records if record[3] is MESSAGE_DELIVERED}
    for record in records:
        if record[3] is MESSAGE_SENT:
            number, src, dst, type, *_ = record[4]
            if src != dst:
                counts[type, src, dst] += 1
                if took.get(number):
                    nth = counts[type, src, dst]
                    yield Delay(types=(type,), src=src, dst=dst, nth=(nth,), seconds=took[number])
