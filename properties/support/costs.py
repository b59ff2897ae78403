"""What each folder of tests took, in a table at the end of a run: seconds, CPU and memory.

CPU is that of the process and of those that it started and that have ended; memory is what the process had
resident after a test of the folder, at most.
"""

from __future__ import annotations

import resource
from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from squall.properties.support import commands
from squall.sim.world.contained import resident_bytes

_CPU, _RESIDENT = "cpu_s", "resident_mb"
_ALL = "all"
#: folders that are told with those in them
_DEEP = ("sim", "model", "real")
#: runs of so many tests and fewer need no table
_FEW = 50
#: what a whole run is to take at most: seconds of CPU, and memory of a process
_CPU_LIMIT_S, _LIMIT_MB = 600, 700


@dataclass
class Cost:
    tests: set[str] = field(default_factory=set)
    seconds: float = 0.0
    cpu_s: float = 0.0
    resident_mb: float = 0.0

    def add(self, report: pytest.TestReport) -> None:
        told: dict[str, Any] = dict(report.user_properties)
        self.tests.add(report.nodeid)
        self.seconds += report.duration
        self.cpu_s += float(told.get(_CPU, 0))
        self.resident_mb = max(self.resident_mb, float(told.get(_RESIDENT, 0)))


_COSTS: dict[str, Cost] = defaultdict(Cost)
_before_s = 0.0


def _cpu_s() -> float:
    used = commands.cpu_s()
    for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        of = resource.getrusage(whose)
        used += of.ru_utime + of.ru_stime
    return used


def pytest_runtest_logstart() -> None:
    global _before_s
    _before_s = _cpu_s()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    global _before_s
    report = yield
    now_s = _cpu_s()
    told: list[tuple[str, object]] = [(_CPU, round(now_s - _before_s, 4))]
    if report.when == "teardown":
        told.append((_RESIDENT, resident_bytes() // 2**20))
    report.user_properties = [*report.user_properties, *told]
    _before_s = now_s
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _COSTS[folder_of(report.nodeid)].add(report)
    _COSTS[_ALL].add(report)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if len(_COSTS[_ALL].tests) <= _FEW:
        return
    write = terminalreporter.write_line
    write(f"{'folder':<28}{'tests':>7}{'seconds':>10}{'CPU s':>9}{'MiB':>7}")
    for folder, cost in sorted(_COSTS.items(), key=lambda each: (each[0] == _ALL, each[0])):
        write(
            f"{folder:<28}{len(cost.tests):>7}{cost.seconds:>10.1f}{cost.cpu_s:>9.1f}"
            f"{cost.resident_mb:>7.0f}"
        )
    whole, tier = _COSTS[_ALL], terminalreporter.config.getoption("tier", None)
    if tier in (None, "quick") and (whole.cpu_s > _CPU_LIMIT_S or whole.resident_mb > _LIMIT_MB):
        write(
            f"That is more than the {_CPU_LIMIT_S} s of CPU and {_LIMIT_MB} MiB that the tier quick may take on a "
            "machine with nothing else to do: what has come to it lately is to be sampled, or made cheaper.",
            yellow=True,
        )


def folder_of(nodeid: str) -> str:
    """``sim/cli`` of ``squall/properties/sim/cli/test_run.py::test_it``."""
    folders = Path(nodeid.partition("::")[0]).parts[2:-1]
    return "/".join(folders[: 2 if folders[:1] and folders[0] in _DEEP else 1]) or "properties"
