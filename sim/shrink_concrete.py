"""What a scenario draws, written down: each latency and each deviation of the order by itself.

The run stays the same, and needs no random number any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from model.run import Record
from real.tracing import MESSAGE_DELIVERED, MESSAGE_SENT
from sim.fuzz import MAX_STEPS
from sim.latency import parse_latency
from sim.plan import Delay, Plan
from sim.program_run import ProgramRun, run_program
from sim.replay import campaign_scenario
from sim.scenario_file import NetworkSpec, SavedScenario


def concrete(saved: SavedScenario) -> Iterator[SavedScenario]:
    """Scenarios that may make the same run as ``saved`` with fewer random draws or none."""
    played = _run(saved)
    order = _order(saved, played)
    if order is not None:
        yield from _latencies(order, played)
        yield order
        played = _run(order)
        saved = order
    yield from _latencies(saved, played)


def _run(saved: SavedScenario) -> ProgramRun:
    scenario = campaign_scenario(saved)
    return run_program(
        scenario.program,
        raises=False,
        seed=scenario.seed,
        latency=scenario.latency,
        bandwidth_bytes_per_s=scenario.bandwidth_bytes_per_s,
        order=scenario.order,
        faults=scenario.plan,
        rpc_timeout_s=scenario.rpc_timeout_s,
        linger=scenario.linger,
        max_steps=MAX_STEPS,
        record_schedule=True,
    )


def _order(saved: SavedScenario, played: ProgramRun) -> SavedScenario | None:
    """The scenario with the order of this run."""
    log = played.cluster.schedule_log
    if saved.faults.schedule.order == "fifo" or log is None:
        return None
    return replace(saved, faults=replace(saved.faults, schedule=log.schedule()))


def _latencies(saved: SavedScenario, played: ProgramRun) -> Iterator[SavedScenario]:
    """The scenario without latency, each message delayed by what it took."""
    if not parse_latency(saved.network.latency).is_random or saved.faults.messages:
        return
    delays = tuple(_delays(played.cluster.trace.records))
    plan: Plan = replace(saved.faults, messages=delays, begin="launch")
    yield replace(saved, network=NetworkSpec(latency="0"), faults=plan)


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
