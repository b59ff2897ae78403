"""What every test shares: one torch thread, and how hard Hypothesis tries.

``HYPOTHESIS_PROFILE`` picks a profile: ``quick`` (few examples, the default), ``deep`` (more, the
default of the tier deep, ``support/tiers.py``) or ``long`` (a long search, printed as it goes).
``SQUALL_WITHOUT_NATIVE=1`` skips the tests of PyTorch's compiled engine where it cannot be had; without it they fail.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
import torch
from hypothesis import HealthCheck, Verbosity, settings

from squall.real.native import build
from squall.sim.cli.starting import NEVER, PROGRESS

T = TypeVar("T")

pytest_plugins = [
    "squall.properties.support.memory",
    "squall.properties.support.replay_lines",
]

# Tensors here are small; more threads only make the machine busier and the timings worse.
torch.set_num_threads(1)

# Real engines run in every example: time says nothing about a defect, and starting is slow.
# Examples follow from the commit (support/tiers.py), also where Hypothesis sees that it is run by a CI.
_COMMON = settings(
    deadline=None,
    derandomize=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("quick", _COMMON, max_examples=25, print_blob=True)
settings.register_profile("deep", _COMMON, max_examples=100, print_blob=True)
settings.register_profile("long", _COMMON, max_examples=5000, verbosity=Verbosity.verbose)


def pytest_configure(config: pytest.Config) -> None:
    os.environ.setdefault(PROGRESS, NEVER)
    tier = "deep" if config.getoption("tier") == "deep" else "quick"
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", tier))
    # What a shell starts in the background ignores interrupts, and what that starts ignores them too.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


_new_record = logging.getLogRecordFactory()


def _text_record(*args: Any, **options: Any) -> logging.LogRecord:
    """A log entry that keeps texts only. Pytest keeps the entries of a test, and with them the
    messages and futures that they are about, of which property ``leftovers`` asks that they go."""
    record = _new_record(*args, **options)
    record.msg, record.args = record.getMessage(), ()
    if record.exc_info:
        record.exc_text = logging.Formatter().formatException(record.exc_info)
        record.exc_info = None
    return record


logging.setLogRecordFactory(_text_record)


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    """A test leaves signals as they were: what it left would show in any other."""
    before = signal.getsignal(signal.SIGINT), signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    after = signal.getsignal(signal.SIGINT), signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert after == before


@pytest.fixture
def free_port() -> int:
    """A TCP port of this machine that nobody listens on, for real processes to meet at."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def compiled_engine() -> None:
    """PyTorch's compiled engine, built now if it has to be: what needs it fails where it is not."""
    _available(build.library)


@pytest.fixture(params=["port", "torch"])
def engine(request: pytest.FixtureRequest) -> str:
    """Each engine in turn, for what has to be the same on both."""
    if request.param == "torch":
        request.getfixturevalue("compiled_engine")
    return str(request.param)


@pytest.fixture(scope="session")
def compiler() -> str:
    """The C++ compiler."""
    return _available(build.compiler)


def _available(ask: Callable[[], T]) -> T:
    try:
        return ask()
    except build.Unavailable as missing:
        if os.environ.get("SQUALL_WITHOUT_NATIVE") == "1":
            pytest.skip(str(missing))
        pytest.fail(f"{missing}; SQUALL_WITHOUT_NATIVE=1 skips what needs it", pytrace=False)
