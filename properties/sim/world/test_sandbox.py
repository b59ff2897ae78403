"""A copy of this process: what it sends, and how it ends, whatever it does."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import Connection

import pytest

from squall.sim.world.sandbox import Contained


def doubled(connection: Connection, number: int) -> None:
    connection.send((os.getpid(), 2 * number))


def echo(connection: Connection) -> None:
    while True:
        connection.send(connection.recv())


def test_it_sends_what_its_work_comes_to() -> None:
    copy = Contained(doubled, 21)
    assert copy.connection.recv() == (copy.pid, 42)
    assert copy.pid != os.getpid()
    assert copy.wait() == 0
    assert copy.end() == 0, "ending it once more changes nothing"


def test_work_that_reads_ends_when_nobody_asks_any_more() -> None:
    copies = [Contained(echo) for _ in range(3)]
    for number, copy in enumerate(copies):
        copy.connection.send(number)
        assert copy.connection.recv() == number
    assert [copy.wait() for copy in reversed(copies)] == [0, 0, 0]


def test_it_says_how_it_died() -> None:
    exits = Contained(lambda _: os._exit(9))
    dies = Contained(lambda _: os.kill(os.getpid(), signal.SIGUSR1))
    for copy, code in ((exits, 9), (dies, -signal.SIGUSR1)):
        with pytest.raises(EOFError):
            copy.connection.recv()
        assert copy.wait() == code


def test_work_that_hangs_can_be_ended() -> None:
    def hang(connection: Connection) -> None:
        connection.send("hanging")
        threading.Event().wait()

    copy = Contained(hang)
    assert copy.connection.recv() == "hanging"
    assert copy.end() == -signal.SIGKILL
    assert copy not in multiprocessing.active_children()


def test_a_thread_that_its_work_leaves_does_not_keep_it() -> None:
    copy = Contained(lambda _: threading.Thread(target=threading.Event().wait).start())
    assert copy.wait() == 0


def test_interrupts_are_for_whoever_waits() -> None:
    copy = Contained(echo)
    copy.connection.send("there")
    assert copy.connection.recv() == "there"
    os.kill(copy.pid, signal.SIGINT)
    copy.connection.send("still there")
    assert copy.connection.recv() == "still there"
    os.kill(copy.pid, signal.SIGTERM)
    assert copy.wait() == -signal.SIGTERM


def test_an_interrupt_while_it_starts_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = multiprocessing.get_context("fork").Process.start

    def interrupted(process: multiprocessing.process.BaseProcess) -> None:
        start(process)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(multiprocessing.get_context("fork").Process, "start", interrupted)
    before = multiprocessing.active_children()
    # A shell has what it starts in the background ignore interrupts.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            Contained(echo)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert multiprocessing.active_children() == before
