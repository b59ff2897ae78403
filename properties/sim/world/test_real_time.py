"""How long something may take: the time of a process, whatever the machine is doing meanwhile."""

from __future__ import annotations

import contextlib
import signal
import threading

import pytest

from squall.sim.world import real_time
from squall.sim.world.real_time import TooLongError, time_limit

#: seconds; a binary fraction, so that a sum of so many is exact
TICK_S = 0.125
LOOKS = 20
LIMIT_S = LOOKS * TICK_S


class Process:
    """How much this process has worked, and when the timer looks: as a test says."""

    def __init__(self) -> None:
        self.worked_s = 0.0

    def process_time(self) -> float:
        return self.worked_s

    def look(self, worked_s: float) -> None:
        """The timer runs out, and since it last did the process has worked for so long."""
        self.worked_s += worked_s
        signal.raise_signal(signal.SIGALRM)


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    found = Process()
    monkeypatch.setattr(real_time.time, "process_time", found.process_time)
    monkeypatch.setattr(real_time.signal, "setitimer", lambda *_: None)
    return found


def looks_until_it_is_too_long(process: Process, worked_s: float, *, elsewhere: bool) -> int:
    """How often the timer looks before it ends a block, in which it each time has worked so."""
    looks = 0
    with contextlib.suppress(TooLongError), time_limit(LIMIT_S, elsewhere=elsewhere):
        while looks < 10 * LOOKS:
            looks += 1
            process.look(worked_s)
    return looks


@pytest.mark.parametrize("worked_s", [TICK_S, 0.0], ids=["work", "waiting"])
def test_work_and_waiting_have_an_end(process: Process, worked_s: float) -> None:
    assert looks_until_it_is_too_long(process, worked_s, elsewhere=False) == LOOKS


@pytest.mark.parametrize(("elsewhere", "expected"), [(False, 2 * LOOKS), (True, LOOKS)])
def test_time_that_others_have_the_machine_counts_if_they_do_the_work(
    process: Process, elsewhere: bool, expected: int
) -> None:
    assert looks_until_it_is_too_long(process, TICK_S / 2, elsewhere=elsewhere) == expected


@pytest.mark.parametrize("elsewhere", [False, True])
def test_time_in_which_a_process_is_stopped_counts_as_one_look(
    process: Process, elsewhere: bool
) -> None:
    """A signal that is pending is not pending twice: so it is while a process is stopped."""
    with time_limit(LIMIT_S, elsewhere=elsewhere):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        try:
            for _ in range(10 * LOOKS):
                signal.raise_signal(signal.SIGALRM)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
        for _ in range(LOOKS - 2):
            process.look(TICK_S)


def swallow(process: Process) -> None:
    """A block that goes on after its first end."""
    with contextlib.suppress(TooLongError):
        for _ in range(LOOKS):
            process.look(TICK_S)
    for _ in range(LOOKS):
        process.look(TICK_S)


def test_a_block_that_goes_on_is_ended_again(process: Process) -> None:
    with pytest.raises(TooLongError), time_limit(LIMIT_S):
        swallow(process)


def test_the_timer_ends_what_waits_for_ever() -> None:
    with pytest.raises(TooLongError), time_limit(0.3):
        threading.Event().wait()


def test_what_ends_in_time_leaves_no_timer_behind() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with time_limit(60.0):
        assert signal.getitimer(signal.ITIMER_REAL) != (0.0, 0.0)
        assert signal.getsignal(signal.SIGALRM) is not before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is before
