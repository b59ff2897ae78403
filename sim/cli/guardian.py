"""A process beside the command, which ends it where nothing else can: while compiled code runs, Python hears
neither signals nor threads.

Python's own handler of signals, which is compiled, writes their numbers into a pipe that the guardian
reads. If the handler of the command has not run after a second and a half, the guardian shows where each
thread is and ends the command. So it does where the thread that watches a run (sim/world/busy_loop.py) has
promised to look again within some time and does not. Imports no torch, and little else: each command begins
with it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import select
import signal
import struct
import sys
import time
from typing import NoReturn

from squall.sim.world import heartbeat

#: seconds that the handler of a signal may take to begin
_HEARD_S = 1.5
#: seconds in which stacks are written
_SHOW_S = 0.3
_SHOW = signal.SIGRTMAX - 2 if hasattr(signal, "SIGRTMAX") else None
_STOPS = (signal.SIGINT, signal.SIGTERM)
_NEVER = float("inf")
#: why a command is ended: for a signal, or since it has not kept what it promised
_NOT_HEARD = "it was interrupted while compiled code ran, which hears no signal"
_LATE = (
    "it has not ended, though its limit of real time is over (--wall-limit) or it was interrupted"
)
_PROMISE = struct.Struct("d")


def begin(json_message: str | None) -> None:
    """Let a guardian watch over this process until it ends. ``json_message``: what stands for the result
    if it is ended. Nothing is done where a process cannot be watched (Linux before 5.3, other systems)."""
    if _SHOW is None or not hasattr(os, "pidfd_open"):
        return
    try:
        command = os.pidfd_open(os.getpid())
    except OSError:
        return
    signals, wakeup = os.pipe()
    told, tell = os.pipe()
    child = os.fork()
    if not child:
        # The child of a child is nobody's to wait for.
        if os.fork():
            os._exit(0)
        os.close(wakeup)
        os.close(tell)
        os.setsid()  # who ends all processes of the command does not mean this one
        _watch(command, signals, told, json_message)
    os.waitpid(child, 0)
    for file in (command, signals, told):
        os.close(file)
    faulthandler.register(_SHOW, all_threads=True, file=sys.__stderr__ or 2)
    os.set_blocking(wakeup, False)
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)

    def promise(seconds: float) -> None:
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(tell, _PROMISE.pack(seconds))

    heartbeat.begin(promise)
    os.register_at_fork(after_in_child=_alone)


def _alone() -> None:
    """In a copy of the command: nobody watches over it, and its signals are its own."""
    signal.set_wakeup_fd(-1)
    heartbeat.begin(None)


def _watch(command: int, signals: int, told: int, json_message: str | None) -> NoReturn:
    """The guardian, until ``command``, a file that stands for the process, says that it has ended."""
    for each in _STOPS:
        signal.signal(each, signal.SIG_IGN)
    poll = select.poll()
    for file in (command, signals, told):
        poll.register(file, select.POLLIN)
    due_s = {signals: _NEVER, told: _NEVER}
    while True:
        left_s = min(due_s.values()) - time.monotonic()
        ready = {file for file, _ in poll.poll(None if left_s == _NEVER else max(0, left_s) * 1000)}
        if command in ready:
            os._exit(0)
        # What a handler tells comes after its signal.
        if signals in ready and set(os.read(signals, 512)) & set(_STOPS):
            due_s[signals] = time.monotonic() + _HEARD_S
        if told in ready:
            for (seconds,) in _PROMISE.iter_unpack(os.read(told, 512 * _PROMISE.size)):
                heard = seconds == heartbeat.HEARD
                due_s[signals if heard else told] = _NEVER if heard else time.monotonic() + seconds
        for file, at_s in due_s.items():
            if not ready and time.monotonic() >= at_s:
                with contextlib.suppress(OSError):
                    signal.pidfd_send_signal(command, _SHOW or 0)
                # The signal may have ended what it waited for.
                if not poll.poll(_SHOW_S * 1000):
                    _end(command, _NOT_HEARD if file == signals else _LATE, json_message)


def _end(command: int, why: str, json_message: str | None) -> NoReturn:
    with contextlib.suppress(OSError):
        os.write(2, f"squall: {why}; it was ended (above: where each thread is)\n".encode())
        if json_message is not None:
            os.write(1, f"{json_message}\n".encode())
        signal.pidfd_send_signal(command, signal.SIGKILL)
    os._exit(0)
