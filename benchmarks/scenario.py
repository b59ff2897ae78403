"""Where the time of ``squall fuzz`` goes: CPU seconds of each part of a scenario.

python -m benchmarks.scenario [SCENARIOS]

The scenarios are those of the first seeds, each run once and checked. A part's time is what the
process spends, not the clock on the wall. While some workers still join, others are at work: what
these do then counts as ``start``.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from time import process_time
from typing import Any
from unittest.mock import patch

from rich.console import Console
from rich.table import Table

from squall.model.checks.registry import PROPERTIES
from squall.model.one_process.interpreter import interpret
from squall.model.one_process.outcome import Outcome
from squall.model.program.program import Program
from squall.sim.cluster import Cluster
from squall.sim.scenario import Scenario
from squall.sim.scenarios.engines import ENGINES
from squall.sim.scenarios.play import expected_of
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search import judge
from squall.sim.search.draw import Settings
from squall.sim.search.judge import drawn_ahead
from squall.sim.world.garbage import settle

SCENARIOS = 2000
#: the parts of a run on workers, in their order
_PHASES = ("start", "run", "settle", "shutdown", "close")
#: everything but the checks
PARTS = ("generate", "reference", *_PHASES, "garbage")


class _Clock:
    """Adds up CPU seconds by part."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._since = process_time()

    def lap(self, part: str | None = None) -> None:
        """What has passed since the last lap belongs to ``part``; None: to nobody."""
        now = process_time()
        if part is not None:
            self.seconds[part] += now - self._since
        self._since = now


class _Phases:
    """Tells a clock at which phase of a run the workers are, and when a program is interpreted."""

    def __init__(self, clock: _Clock) -> None:
        self.clock = clock

    def __enter__(self) -> None:
        clock, joined = self.clock, Counter[int]()
        init_rpc = Cluster.init_rpc

        def joining(cluster: Cluster, rank: int) -> None:
            init_rpc(cluster, rank)
            joined[id(cluster)] += 1
            if joined[id(cluster)] == cluster.size:
                del joined[id(cluster)]
                clock.lap("start")

        def ends(name: str, part: str) -> Callable[..., Any]:
            method = getattr(Cluster, name)

            def timed(cluster: Cluster, *args: Any, **kwargs: Any) -> Any:
                try:
                    return method(cluster, *args, **kwargs)
                finally:
                    clock.lap(part)

            return timed

        def interpreting(program: Program) -> Outcome:
            clock.lap("generate")
            outcome = interpret(program)
            clock.lap("reference")
            return outcome

        self._patches = [
            patch.object(judge, "interpret", interpreting),
            patch.object(Cluster, "init_rpc", joining),
            patch.object(Cluster, "run", ends("run", "run")),
            patch.object(Cluster, "settle", ends("settle", "settle")),
            patch.object(Cluster, "shutdown", ends("shutdown", "shutdown")),
        ]
        for each in self._patches:
            each.start()

    def __exit__(self, *_: object) -> None:
        for each in self._patches:
            each.stop()


def measure(scenarios: int = SCENARIOS, first: int = 0) -> dict[str, float]:
    """Seconds of CPU time by part, ``total`` and ``events`` among them, for all the scenarios."""
    clock = _Clock()
    events = 0
    with campaign_settings(), _Phases(clock):
        clock.lap()
        for scenario in drawn_ahead(range(first, first + scenarios), Settings()):
            clock.lap("generate")
            assert isinstance(scenario, Scenario) and scenario.program is not None
            settle()
            clock.lap("garbage")
            expected = expected_of(scenario)
            run = ENGINES["port"].run(scenario)
            run.outcomes.expected, run.cluster = expected, None
            clock.lap("close")
            for property in [each for each in PROPERTIES if each.judges(run)]:
                deque(property.check(run), maxlen=0)
                clock.lap(f"check: {property.name}")
            events += len(run.records)
            del run
            clock.lap("close")
    seconds = dict(clock.seconds)
    seconds["checks"] = sum(s for part, s in seconds.items() if part.startswith("check: "))
    seconds["workers"] = sum(seconds.get(part, 0.0) for part in _PHASES)
    seconds["total"] = sum(clock.seconds.values())
    return {**seconds, "events": events, "scenarios": scenarios}


def rows(seconds: dict[str, float]) -> list[tuple[str, str, str]]:
    """For each part: its name, milliseconds a scenario, and how often the reference's cost."""
    count, reference = seconds["scenarios"], seconds["reference"]
    parts = [*PARTS, "workers"]
    parts += [part for part in seconds if part.startswith("check: ")] + ["checks", "total"]
    return [
        (part, f"{seconds[part] / count * 1e3:.3f}", f"{seconds[part] / reference:.2f}")
        for part in parts
        if part in seconds
    ]


def main() -> None:
    scenarios = int(sys.argv[1]) if len(sys.argv) > 1 else SCENARIOS
    measure(20)
    seconds = measure(scenarios)
    table = Table(title=f"{scenarios} scenarios of {seconds['events'] / scenarios:.0f} events")
    table.add_column("part")
    table.add_column("ms a scenario", justify="right")
    table.add_column("times the reference", justify="right")
    for row in rows(seconds):
        table.add_row(*row, end_section=row[0] in ("reference", "workers", "checks"))
    console = Console()
    console.print(table)
    console.print(f"{scenarios / seconds['total']:.1f} scenarios a second of CPU time")


if __name__ == "__main__":
    main()
