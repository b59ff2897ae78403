"""The plugin for pytest: options, progress, how a failure is shown, and the fixture ``squall_cluster``.

It is loaded into every run of pytest where squall is installed, so it imports nothing of torch's.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from squall.sim.library.options import OPTIONS

if TYPE_CHECKING:
    from squall.sim.library.manual_cluster import ClusterByHand

#: in ``user_properties`` of a report
_DONE = "squall"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("squall", "distributed autograd, simulated (squall)")
    group.addoption(
        "--squall-seeds",
        type=_positive,
        metavar="N",
        help="run each test of squall's with so many seeds, whatever it says itself",
    )
    group.addoption(
        "--squall-engine",
        choices=("port", "torch"),
        help="run the ranks on squall's own engine, or on PyTorch's compiled one",
    )
    group.addoption(
        "--squall-replay",
        metavar="SEED|FILE|last",
        nargs="?",
        const="last",
        type=_scenario,
        help="run each test of squall's in one scenario alone: that of a seed, of a file that a "
        "failure has named, or, by itself or as 'last', of its last failure",
    )


def _scenario(text: str) -> str:
    if text == "last" or text.isdigit():
        return text
    if text.endswith(".json"):
        if not Path(text).is_file():
            raise argparse.ArgumentTypeError(f"there is no file {text!r}, expected a scenario file")
        return text
    raise argparse.ArgumentTypeError(
        f"{text!r} is no seed and no scenario file (.json): if it is a test, write --squall-replay=last"
    )


def _positive(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"expected a number of seeds, 1 or more, got {text!r}")
    return int(text)


def pytest_configure(config: pytest.Config) -> None:
    OPTIONS.seeds = config.getoption("--squall-seeds")
    OPTIONS.engine = config.getoption("--squall-engine")
    OPTIONS.replay = config.getoption("--squall-replay")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    progress = _Progress(item)
    OPTIONS.on_run, OPTIONS.on_end = progress.ran, progress.ended
    yield
    progress.clear()
    OPTIONS.on_run, OPTIONS.on_end = lambda done, of: None, lambda text: None


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """A failure tells of the rank, not of squall's own frames."""
    outcome: Any = yield
    run = sys.modules.get("squall.sim.library.run")
    if call.excinfo is None or run is None or not isinstance(call.excinfo.value, run.Failed):
        return
    report = outcome.get_result()
    report.longrepr = str(call.excinfo.value)


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: Any) -> Any:
    """With ``-v``, how many seeds have passed."""
    if report.when == "call" and report.passed:
        for name, text in report.user_properties:
            if name == _DONE:
                return "passed", ".", f"PASSED ({text})"
    return None


class _Progress:
    """How far the running test is: on a terminal, beside its name."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item
        reporter: Any = item.config.pluginmanager.get_plugin("terminalreporter")
        shown = reporter is not None and reporter.verbosity > 0 and reporter.isatty
        self._writer: Any = reporter._tw if shown else None
        self._width = 0

    def ran(self, done: int, of: int) -> None:
        if self._writer is not None:
            text = f" {done:,}/{of:,}"
            self._writer.write("\b" * self._width + text, flush=True)
            self._width = len(text)

    def ended(self, text: str) -> None:
        self._item.user_properties.append((_DONE, text))

    def clear(self) -> None:
        if self._writer is not None and self._width:
            self._writer.write("\b" * self._width + " " * self._width + "\b" * self._width)


@pytest.fixture
def squall_cluster() -> ClusterByHand:
    """A cluster whose messages a test holds, delivers and loses by hand, and whose workers it ends;
    see docs/howto/tests.md."""
    from squall.sim.library.manual_cluster import ClusterByHand

    return ClusterByHand()
