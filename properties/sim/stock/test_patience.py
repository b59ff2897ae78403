"""A worker process is given up for what it does, never because the machine is busy."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from squall.sim.stock.patience import wait_readable

Started = Callable[..., tuple[socket.socket, int]]


@pytest.fixture
def started() -> Iterator[Started]:
    """Starts a Python process with a link of its own, ``link`` in its code."""
    processes: list[subprocess.Popen[bytes]] = []
    links: list[socket.socket] = []

    def start(code: str, **options: object) -> tuple[socket.socket, int]:
        ours, theirs = socket.socketpair()
        number = theirs.fileno()
        head = f"import socket, time\nlink = socket.socket(fileno={number})\n"
        process = subprocess.Popen(
            [sys.executable, "-c", head + code], pass_fds=[number], **options
        )  # type: ignore[call-overload]
        theirs.close()
        processes.append(process)
        links.append(ours)
        return ours, process.pid

    yield start
    for process in processes:
        process.kill()
        process.wait()
    for link in links:
        link.close()


def test_who_answers_late_is_waited_for(started: Started) -> None:
    link, pid = started("time.sleep(2.5)\nlink.send(b'here')")
    wait_readable(link, pid, 30.0)
    assert link.recv(10) == b"here"


def test_who_waits_for_ever_is_given_up(started: Started) -> None:
    link, pid = started("time.sleep(600)")
    with pytest.raises(TimeoutError, match="did nothing for 2 s"):
        wait_readable(link, pid, 2.0)


def test_who_computes_for_ever_is_given_up(started: Started) -> None:
    link, pid = started("while True: pass")
    with pytest.raises(TimeoutError, match="computed for 2 s"):
        wait_readable(link, pid, 2.0)


def test_a_child_that_computes_is_work_of_its_parent(started: Started) -> None:
    work = "n = 0\nwhile time.process_time() < 4: n += 1"
    link, pid = started(
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import time\\n' + {work!r}])"
        "\nlink.send(b'here')"
    )
    wait_readable(link, pid, 3.0)
    assert link.recv(10) == b"here"


def test_who_is_ended_is_not_waited_for(started: Started) -> None:
    link, pid = started("raise SystemExit(3)")
    wait_readable(link, pid, 30.0)
    assert link.recv(10) == b""


@pytest.mark.deep("keeps all cores busy for half a minute")
@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="processes have no such priority here")
def test_who_gets_no_processor_is_waited_for(started: Started) -> None:
    """It shares one processor with an endless loop, which leaves it a few parts in a thousand."""
    processor = min(os.sched_getaffinity(0))
    _, busy = started("while True: pass")
    os.sched_setaffinity(busy, {processor})
    link, pid = started(
        "link.send(b'1')\nlink.recv(1)\nend = time.process_time() + 0.01\n"
        "while time.process_time() < end: pass\nlink.send(b'here')"
    )
    assert link.recv(1) == b"1"
    os.sched_setaffinity(pid, {processor})
    os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
    link.send(b"1")
    wait_readable(link, pid, 1.5)
    assert link.recv(10) == b"here"
