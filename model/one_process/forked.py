"""Running something in a copy of this process, so that nothing of it is seen here."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import io
import logging
import os
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

#: seconds of real time that a copy of the process may take
TIMEOUT_S = 60.0


class CannotForkError(RuntimeError):
    """This process cannot be copied, or its copy came to no result."""


class FailedInChildError(RuntimeError):
    """What ran in the copy raised; the text is the error's."""


def call_in_child(
    fn: Callable[[], Any],
    *,
    isolate: Callable[[], object] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Any:
    """What ``fn()`` gives when called in a forked copy of this process.

    The result may hold CPU tensors and plain values. ``isolate`` is called first in the copy. What
    the copy prints or writes to open files is lost. Raises :class:`FailedInChildError` if ``fn``
    raised and :class:`CannotForkError` if there is no copy, or none that answered within
    ``timeout_s`` seconds.
    """
    if sys.platform != "linux":
        raise CannotForkError(f"processes are copied on Linux only, this is {sys.platform}")
    if torch.cuda.is_initialized():
        raise CannotForkError("a process that uses CUDA cannot be copied")
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Python warns of other threads; the copy runs none of them and waits for none.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        _run_child(fn, isolate, writing)
    os.close(writing)
    try:
        answer = _read_all(reading, timeout_s)
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)  # it has answered, or took too long
        os.waitpid(child, 0)
    if not answer:
        raise CannotForkError("the copy of this process died without an answer")
    outcome, value = torch.load(io.BytesIO(answer), weights_only=True)
    if outcome == "error":
        raise FailedInChildError(value)
    return value


def _run_child(fn: Callable[[], Any], isolate: Callable[[], object] | None, pipe: int) -> None:
    code = 1
    try:
        gc.disable()
        _mute(pipe)
        torch.set_num_threads(1)  # a thread pool does not survive the fork
        answer = io.BytesIO()
        try:
            if isolate is not None:
                isolate()
            torch.save(("ok", fn()), answer)
        except BaseException as error:
            answer = io.BytesIO()
            torch.save(("error", f"{type(error).__name__}: {error}"), answer)
        view = answer.getbuffer()
        while view:
            view = view[os.write(pipe, view) :]
        code = 0
    finally:
        os._exit(code)


def _mute(pipe: int) -> None:
    """Point everything that this process could write to at nothing, save the pipe."""
    logging.disable(logging.CRITICAL)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        if fd in (pipe, nowhere):
            continue
        with contextlib.suppress(OSError):  # the directory listing itself is closed by now
            if fd <= 2 or fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY:
                os.dup2(nowhere, fd)
    sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _read_all(fd: int, timeout_s: float) -> bytes:
    deadline = time.monotonic() + timeout_s
    parts: list[bytes] = []
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([fd], [], [], left)[0]:
            raise CannotForkError(f"the copy of this process gave no answer within {timeout_s:g} s")
        part = os.read(fd, 1 << 20)
        if not part:
            return b"".join(parts)
        parts.append(part)
