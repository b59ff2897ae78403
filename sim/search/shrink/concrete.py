"""What a scenario draws, written down: each latency and each deviation of the order by itself.

The run stays the same, and needs no random number any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from squall.model.events.run import Record
from squall.model.program.program import computation_of
from squall.real.tracing import MESSAGE_DELIVERED, MESSAGE_SENT
from squall.sim.faults.concrete import concrete as concrete_plan
from squall.sim.faults.plan import Delay
from squall.sim.programs.faults import run_with_faults
from squall.sim.programs.run import ProgramRun
from squall.sim.scenarios.file import NetworkSpec, SavedScenario
from squall.sim.search.judge import MAX_STEPS
from squall.sim.world.latency import parse_latency


def concrete(saved: SavedScenario) -> Iterator[SavedScenario]:
    """Scenarios that should make the same run as ``saved`` with fewer random draws or none, those
    with none first."""
    assert saved.program is not None, "a script's choices cannot be written down"
    # What goes on beside the computation is not for runs in which things go wrong.
    saved = replace(saved, program=computation_of(saved.program))
    played = _run(saved)
    log = played.cluster.schedule_log
    schedule = log.schedule() if log is not None else None
    records = played.cluster.trace.records
    written = replace(saved, faults=concrete_plan(saved.faults, records, schedule))
    if _has_latencies(written):
        # Without latency fewer things are ready at once: the order counts otherwise.
        without = _without_latency(written, records)
        again = _run(
            replace(without, faults=replace(without.faults, schedule=saved.faults.schedule))
        )
        log = again.cluster.schedule_log
        if log is not None:
            yield replace(without, faults=replace(without.faults, schedule=log.schedule()))
        yield without
        yield _without_latency(saved, records)
    yield written
    yield replace(saved, faults=replace(written.faults, schedule=saved.faults.schedule))


def _run(saved: SavedScenario) -> ProgramRun:
    """A run as a campaign does one under faults, with a log of its order."""
    assert saved.program is not None
    return run_with_faults(
        saved.program,
        saved.faults,
        raises=False,
        seed=saved.seed,
        latency=saved.network.latency,
        bandwidth_bytes_per_s=saved.network.bandwidth_bytes_per_s,
        rpc_timeout_s=saved.rpc_timeout_s,
        max_steps=MAX_STEPS,
        record_schedule=True,
    )


def _has_latencies(saved: SavedScenario) -> bool:
    """Whether latencies are drawn, and nothing else counts the messages."""
    return parse_latency(saved.network.latency).is_random and not saved.faults.messages


def _without_latency(saved: SavedScenario, records: Sequence[Record]) -> SavedScenario:
    """The scenario without latency, each message delayed by what it took in this run."""
    plan = replace(saved.faults, messages=tuple(_delays(records)), begin="launch")
    return replace(saved, network=NetworkSpec(latency="0"), faults=plan)


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
