"""A plugin of pytest that tells of each test, a line of JSON each, to whoever has started it.

    python -m pytest -p squall.sim.campaigns.pytest_lines

The lines go into the pipe whose number :data:`VARIABLE` has. ``root`` is the folder that all names
begin at. A ``function`` is a test function with so many ``items``, one for each of its parameters;
``broken`` is a file, or something in one, that could not be read. ``left_out`` is an item of one
of these functions that an option has deselected. ``begins`` and ``item`` are the start and the end of an item.

Whoever has that told may say which are left out, a list of names in JSON, as :data:`LEFT_OUT`. Then options
deselect nothing: of a few functions they might choose other items than of the whole suite.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    import pytest

VARIABLE, LEFT_OUT = "SQUALL_PYTEST_LINES", "SQUALL_PYTEST_LEFT_OUT"
#: what a plugin may have added to a report: seconds of a processor, those of a process that goes on included
_CPU = "cpu_s"
_wrapper = pluggy.HookimplMarker("pytest")(wrapper=True, trylast=True)
#: characters of an error that are told
_MOST_SAID = 300


def pytest_configure(config: pytest.Config) -> None:
    pipe = os.environ.pop(VARIABLE, None)  # what tests start is not meant
    left_out = os.environ.pop(LEFT_OUT, None)
    if pipe is not None:
        names = None if left_out is None else frozenset(json.loads(left_out))
        config.pluginmanager.register(_Lines(int(pipe), names))


class _Lines:
    def __init__(self, pipe: int, left_out: frozenset[str] | None) -> None:
        os.set_inheritable(pipe, False)
        self._pipe, self._left_out = pipe, left_out
        self._all: list[pytest.Item] = []
        #: the function of each item
        self._functions: dict[str, str] = {}
        self._began = (0.0, 0.0)
        self._cpu_s: float | None = None
        self._outcome, self._text = "passed", ""

    def _tell(self, **said: Any) -> None:
        line = f"{json.dumps(said)}\n".encode()
        while line:
            line = line[os.write(self._pipe, line) :]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._tell(broken=report.nodeid, text=_short(report))

    @_wrapper
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None]:
        self._all = list(items)
        yield
        if self._left_out is not None:
            items[:] = [item for item in self._all if item.nodeid not in self._left_out]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        counts: dict[str, int] = {}
        for item in session.items:
            function = self._functions[item.nodeid] = _function(item)
            counts[function] = counts.get(function, 0) + 1
        self._tell(root=str(session.config.rootpath))
        for function, items in counts.items():
            self._tell(function=function, items=items)
        for item in self._all:
            if item.nodeid not in self._functions and _function(item) in counts:
                self._tell(left_out=item.nodeid)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._began = time.monotonic(), _cpu_s()
        self._outcome, self._text, self._cpu_s = "passed", "", None
        self._tell(begins=self._functions[nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        told: dict[str, Any] = dict(report.user_properties)
        if _CPU in told:
            self._cpu_s = (self._cpu_s or 0.0) + float(told[_CPU])
        if report.failed and self._outcome != "failed":
            self._outcome, self._text = "failed", _short(report)
        elif report.skipped and self._outcome == "passed":
            self._outcome = "skipped"

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        seconds = time.monotonic() - self._began[0]
        cpu_s = _cpu_s() - self._began[1] if self._cpu_s is None else self._cpu_s
        self._tell(
            item=nodeid,
            function=self._functions[nodeid],
            outcome=self._outcome,
            text=self._text,
            seconds=round(seconds, 4),
            cpu_s=round(cpu_s, 4),
        )


def _function(item: pytest.Item) -> str:
    """Its name without the parameters."""
    name = getattr(item, "originalname", None) or item.name
    return item.nodeid.removesuffix(item.name) + name


def _short(report: pytest.CollectReport | pytest.TestReport) -> str:
    """What went wrong, in a line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = str(report.longreprtext if crash is None else crash.message).strip().splitlines()
    line = (lines or [""])[-1 if crash is None else 0]
    return line.removeprefix("E ").strip()[:_MOST_SAID]


def _cpu_s() -> float:
    """Seconds of a processor of this process, and of those that it has waited for."""
    return sum(os.times()[:4])
