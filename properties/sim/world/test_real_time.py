"""How long something may take: the time of a process, whatever the machine is doing meanwhile."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from squall.sim.world.real_time import TooLongError, time_limit


def work(seconds: float) -> None:
    until_s = time.process_time() + seconds
    while time.process_time() < until_s:
        pass


def test_work_has_an_end() -> None:
    started_s = time.process_time()
    with pytest.raises(TooLongError), time_limit(0.3):
        work(60.0)
    assert 0.2 < time.process_time() - started_s < 2.0


def test_waiting_has_an_end_too() -> None:
    with pytest.raises(TooLongError), time_limit(0.3):
        threading.Event().wait(60.0)


def test_what_ends_in_time_is_left_alone() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with time_limit(10.0):
        work(0.05)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is before


def stubborn() -> None:
    """Swallows the first end."""
    with contextlib.suppress(TooLongError):
        work(60.0)
    work(60.0)


def test_a_block_that_goes_on_is_ended_again() -> None:
    with pytest.raises(TooLongError), time_limit(0.2):
        stubborn()


STOPPED = """
from squall.sim.world.real_time import time_limit
import sys, time
with time_limit(2.0, elsewhere={elsewhere}):
    print("there", flush=True)
    until = time.process_time() + 0.1
    while time.process_time() < until:
        pass
print("ended")
"""


@pytest.mark.parametrize("elsewhere", [False, True])
def test_time_in_which_a_process_is_stopped_does_not_count(elsewhere: bool) -> None:
    words = [sys.executable, "-c", STOPPED.format(elsewhere=elsewhere)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "there\n"
        os.kill(child.pid, signal.SIGSTOP)
        time.sleep(3.0)  # longer than it may take
        os.kill(child.pid, signal.SIGCONT)
        assert child.stdout.read() == "ended\n"
    assert child.returncode == 0
