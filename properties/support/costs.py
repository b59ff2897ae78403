"""What each folder of tests took, in a table at the end of a run: seconds, CPU and memory.

CPU is that of the process and of all that it has started; memory is what the process had
resident after a test of the folder, at most. ``--keep-costs`` writes down in ``costs.json`` which tests take
long, for the tier quick to draw from (``tiers.py``).
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from squall.properties.support import descendants
from squall.properties.support.paths import ROOT
from squall.sim.world.sandbox import resident_bytes

#: of a test: what it took, what fixtures have that other tests of its file asked for first, and memory
_CPU, _SHARED, _RESIDENT = "cpu_s", "shared_s", "resident_mb"
_ALL = "all"
#: folders that are told with those in them
_DEEP = ("sim", "model", "real")
#: so many tests that took long and are not known to are told
_MOST_NEW = 10
#: runs of so many tests and fewer need no table
_FEW = 50
#: seconds of CPU, a case, of tests that take long, on the machine that they were last measured on
KNOWN = Path(__file__).with_name("costs.json")
_LONG_S = 0.5
#: so long after each other it is looked what processes have taken
_LOOKS_S = 0.02
#: what a whole run is to take at most: seconds of CPU, and memory of a process
_CPU_LIMIT_S, _LIMIT_MB = 600, 700


@dataclass
class Cost:
    tests: set[str] = field(default_factory=set)
    seconds: float = 0.0
    cpu_s: float = 0.0
    resident_mb: float = 0.0

    def add(self, report: pytest.TestReport, *more: str) -> None:
        """``more``: further properties of the report that are seconds of CPU."""
        told: dict[str, Any] = dict(report.user_properties)
        self.tests.add(report.nodeid)
        self.seconds += report.duration
        self.cpu_s += sum(float(told.get(name, 0)) for name in (_CPU, *more))
        self.resident_mb = max(self.resident_mb, float(told.get(_RESIDENT, 0)))


_COSTS: dict[str, Cost] = defaultdict(Cost)
#: by test, all its cases together, as if each had run alone
_OF_TESTS: dict[str, Cost] = defaultdict(Cost)
_before_s = 0.0
#: when was looked last, and what had been taken until then
_seen = (0.0, 0.0)
#: seconds of CPU of each fixture of a file, by the file and its name
_fixtures: dict[tuple[Path, str], float] = {}
#: those that the test which is set up has been the first to ask for
_first: set[tuple[Path, str]] = set()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("costs")
    group.addoption("--keep-costs", action="store_true", help="keep in costs.json what tests took")


def known() -> dict[str, float]:
    """Seconds of CPU, a case, of each test that takes long."""
    costs: dict[str, float] = json.loads(KNOWN.read_text(encoding="utf-8"))
    return costs


def updated(costs: Mapping[str, float], measured: Mapping[str, float]) -> dict[str, float]:
    """What is known once tests have been measured; of tests that are gone, and of short ones, nothing is kept."""
    new = {**costs, **measured}
    return {name: new[name] for name in sorted(new) if new[name] >= _LONG_S and _is_there(name)}


def test_of(nodeid: str) -> str:
    """The test that a case is of."""
    return nodeid.partition("[")[0]


def _is_there(name: str) -> bool:
    place, _, test = name.partition("::")
    file = ROOT / place
    return file.exists() and f"def {test.rpartition('::')[2]}(" in file.read_text(encoding="utf-8")


def _cpu_s() -> float:
    """What all processes have taken. To look takes 2 ms, so what takes less than ``_LOOKS_S`` counts for what is next."""
    global _seen
    if time.monotonic() - _seen[0] > _LOOKS_S:
        used_s = descendants.cpu_s()
        _seen = time.monotonic(), used_s
    return _seen[1]


def pytest_runtest_logstart() -> None:
    global _before_s
    _before_s = _cpu_s()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    before_s = _cpu_s()
    made = yield
    if fixturedef.scope == "module":
        key = request.path, fixturedef.argname
        _fixtures[key] = _cpu_s() - before_s
        _first.add(key)
    return made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    global _before_s
    report = yield
    now_s = _cpu_s()
    told: list[tuple[str, object]] = [(_CPU, round(now_s - _before_s, 4))]
    if report.when == "setup":
        asked = {(item.path, name) for name in getattr(item, "fixturenames", ())} - _first
        _first.clear()
        told.append((_SHARED, round(sum(_fixtures.get(key, 0) for key in asked), 4)))
    if report.when == "teardown":
        told.append((_RESIDENT, resident_bytes() // 2**20))
    report.user_properties = [*report.user_properties, *told]
    _before_s = now_s
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _COSTS[folder_of(report.nodeid)].add(report)
    _OF_TESTS[test_of(report.nodeid)].add(report, _SHARED)
    _COSTS[_ALL].add(report)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if terminalreporter.config.getoption("keep_costs"):
        took = {test: round(each.cpu_s / len(each.tests), 1) for test, each in _OF_TESTS.items()}
        KNOWN.write_text(json.dumps(updated(known(), took), indent=0) + "\n", encoding="utf-8")
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
            "machine with nothing else to do. Of what took long --keep-costs writes down what costs.json does not know:",
            yellow=True,
        )
        new = {test: each.cpu_s for test, each in _OF_TESTS.items() if test not in known()}
        for test in sorted(new, key=lambda test: -new[test])[:_MOST_NEW]:
            write(f"{new[test]:8.1f} s  {test}")


def folder_of(nodeid: str) -> str:
    """``sim/cli`` of ``squall/properties/sim/cli/test_run.py::test_it``."""
    folders = Path(nodeid.partition("::")[0]).parts[2:-1]
    return "/".join(folders[: 2 if folders[:1] and folders[0] in _DEEP else 1]) or "properties"
