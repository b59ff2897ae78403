"""Errors that end a simulated process, in the words and with the frames of the user's script."""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from squall.model.events.run import EXITED
from squall.real.own_files import described, kept_frames, own_frames_hidden, without_own_frames


class Uncaught(NamedTuple):
    """An exception that ends a process: its type's name, its text, and a printable traceback."""

    type: str
    message: str
    traceback: str


class OwnInterrupt(KeyboardInterrupt):
    """What SIGINT raises that a process of the script sends itself; Ctrl-C ends the run instead."""


OwnInterrupt.__name__ = OwnInterrupt.__qualname__ = "KeyboardInterrupt"
OwnInterrupt.__module__ = "builtins"


def report(error: BaseException) -> Uncaught:
    """Describe ``error``; frames of the simulator itself are left out of the traceback."""
    return Uncaught(type(error).__name__, str(error), "".join(described(error).format()))


def exited(code: int, error: BaseException | None = None) -> Uncaught:
    """That a process leaves with this exit code: by ``error``, or where it is now."""
    if error is not None:
        text = report(error).traceback
    else:
        with own_frames_hidden():
            lines = traceback.format_stack()
        text = "".join(["Traceback (most recent call last):\n", *lines, f"{EXITED}: {code}\n"])
    return Uncaught(EXITED, f"exit code {code}", text)


def call_hook(error: BaseException) -> None:
    """``sys.excepthook``, with the script's frames alone."""
    without_own_frames(error)
    sys.excepthook(type(error), error, error.__traceback__)


@contextmanager
def own_frames_left_out(wanted: Callable[[], bool]) -> Iterator[None]:
    """Of all tracebacks and stacks that are told, when ``wanted`` says so, those of destructors included."""
    before = sys.unraisablehook

    @functools.wraps(before)
    def hook(args: Any, /) -> None:
        if wanted():
            without_own_frames(args.exc_value)
            trace = kept_frames(args.exc_traceback)
            args = type(args)((args.exc_type, args.exc_value, trace, args.err_msg, args.object))
        before(args)

    with own_frames_hidden(wanted):
        sys.unraisablehook = hook
        try:
            yield
        finally:
            sys.unraisablehook = before


def usage_of(error: BaseException) -> str | None:
    """What ``argparse`` says of the arguments of a script that it ends by this exception."""
    if not isinstance(error, SystemExit):
        return None
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code.co_name == "error" and frame.f_globals.get("__name__") == "argparse":
            message = frame.f_locals.get("message")
            return message if isinstance(message, str) else None
        trace = trace.tb_next
    return None


def exit_code_of(error: BaseException) -> int | None:
    """The exit code that an exception stands for, if it is a SystemExit; prints its text."""
    if not isinstance(error, SystemExit):
        return None
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1
