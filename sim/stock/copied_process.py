"""A copy of a process of a script that computes something, and of which nothing stays."""

from __future__ import annotations

import os
import pickle
import select
import signal
from collections.abc import Callable
from typing import Any, NoReturn

import torch

from squall.real.native.here import Here
from squall.sim.stock import turn_guest

#: real seconds that it may take, fewer than the coordinator waits for a process that does nothing
_LIMIT_S = 25.0
#: before they are those of simulated processes
_fork, _kill, _waitpid = os.fork, os.kill, os.waitpid


class CopyError(Exception):
    """It could not be computed: the text says why."""


def in_a_copy(compute: Callable[[], Any]) -> Any:
    """What ``compute`` returns there. It prints nothing, and can speak to nobody. Raises :class:`CopyError`."""
    reads, writes = os.pipe()
    with turn_guest.unseen():
        process = _fork()
    if not process:
        _say(writes, compute)
    os.close(writes)
    try:
        succeeded, said = _heard(reads)
    finally:
        os.close(reads)
        _kill(process, signal.SIGKILL)
        _waitpid(process, 0)
    if not succeeded:
        raise CopyError(said)
    return said


def _heard(reads: int) -> tuple[bool, Any]:
    said = b""
    while select.select([reads], [], [], _LIMIT_S)[0]:
        more = os.read(reads, 1 << 16)
        said += more
        if not more:
            heard: tuple[bool, Any] = (
                pickle.loads(said) if said else (False, "the process that computes it has ended")
            )
            return heard
    return False, f"one process takes longer than {_LIMIT_S:g} s for it"


def _say(writes: int, compute: Callable[[], Any]) -> None:
    """In the copy, which ends here."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        torch.set_num_threads(1)
        vars(Here.process()).update(ask=_refuse, ask_then=_refuse)
        said = True, compute()
    except Exception as error:
        said = False, f"one process cannot do it: {type(error).__name__}: {error}"
    try:
        with os.fdopen(writes, "wb") as pipe:
            pickle.dump(said, pipe)
    finally:
        _kill(os.getpid(), signal.SIGKILL)


def _refuse(*_: object) -> NoReturn:
    raise RuntimeError("it calls other ranks")
