"""Inside a worker process of a script: ``multiprocessing.Process``, whose processes the coordinator
starts.

Whatever the start method, a child is what ``spawn`` makes: a new process that runs the module and is
handed the pickled ``Process``. So ``fork`` copies no memory here, and what a module makes under
``if __name__ == "__main__"`` is not there.
"""

from __future__ import annotations

import ctypes
import io
import multiprocessing
import os
import sys
from collections.abc import Callable
from functools import partial
from multiprocessing import context, managers, process, reduction, spawn
from typing import Any, NoReturn

import torch

from squall.real.native.here import Here
from squall.sim.scripts.compat.errors import report

_context: Any = context
_spawn: Any = spawn
_process: Any = process


class _Pickler(reduction.ForkingPickler):
    """As ``multiprocessing`` pickles for a child, but tensors travel by value.

    torch would move them to shared memory first, and send the file of it.
    """

    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, torch.UntypedStorage) or obj.device.type != "cpu":
            return NotImplemented
        if obj.is_shared():
            raise RuntimeError(
                "on the engine torch processes of a script share no memory: a tensor after "
                "share_memory_() cannot be an argument of a process; run it with --engine port"
            )
        return _storage, (ctypes.string_at(obj.data_ptr(), obj.nbytes()),)


def _storage(written: bytes) -> torch.UntypedStorage:
    if not written:
        return torch.UntypedStorage(0)
    return torch.frombuffer(bytearray(written), dtype=torch.uint8).untyped_storage()


class Popen:
    """What ``multiprocessing`` has of a process that it has started."""

    #: nobody can wait for it with others (multiprocessing.connection.wait)
    sentinel = -1

    def __init__(
        self, here: Here, look: Callable[[], object], own: dict[str, str], forked: bool, obj: Any
    ) -> None:
        self._here = here
        self._look = look
        self.returncode: int | None = None
        _spawn._check_not_importing_main()
        _context.set_spawning_popen(self)
        try:
            written = io.BytesIO()
            _Pickler(written).dump(obj)
            call = written.getvalue()
        finally:
            _context.set_spawning_popen(None)
        self.pid: int = here.ask("child", call, inherited(own), forked)

    def duplicate_for_child(self, fd: int) -> NoReturn:
        raise RuntimeError(
            "on the engine torch processes of a script share no queues and no pipes: the simulated "
            "network is between them, and nothing else (a DataLoader runs with num_workers=0)"
        )

    DupFd = duplicate_for_child  # a start method has the one or the other

    def poll(self, flag: int = 0) -> int | None:
        self._look()  # whoever polls lets time go on
        return self._answer("child poll")

    def wait(self, timeout: float | None = None) -> int | None:
        return self._answer("child wait", timeout)

    def _answer(self, word: str, *rest: Any) -> int | None:
        if self.returncode is None:
            self.returncode = self._here.ask(word, self.pid, *rest)
        return self.returncode

    def terminate(self) -> None:
        self._end(15)

    def kill(self) -> None:
        self._end(9)

    def _end(self, signal: int) -> None:
        if self.returncode is None:
            self._here.ask("child kill", self.pid, signal)

    def close(self) -> None:
        """Nothing is open."""


def _no_manager(*_: Any, **__: Any) -> NoReturn:
    raise RuntimeError(
        "on the engine torch there is no multiprocessing.Manager: processes of a script share no "
        "queues and no pipes, the simulated network is between them, and nothing else; run it with "
        "--engine port"
    )


def inherited(own: dict[str, str]) -> dict[str, str]:
    """What a process that this one starts finds in its environment: not its ``own`` rank."""
    return {key: value for key, value in os.environ.items() if own.get(key) != value}


def install(here: Here, look: Callable[[], object], own: dict[str, str]) -> None:
    """Let the processes that the script makes from now on be the coordinator's. ``look``: called by
    who asks whether one has ended; ``own``: what this process alone was given of its environment."""

    managers.BaseManager.start = _no_manager  # type: ignore[method-assign]
    for kind in (_context.ForkProcess, _context.SpawnProcess, _context.ForkServerProcess):
        forked = kind is _context.ForkProcess  # it ends without the handlers of atexit
        kind._Popen = staticmethod(partial(Popen, here, look, own, forked))


def importing(on: bool) -> None:
    """Whether the module of the script is run for a new process, which must start none then."""
    current = _process.current_process()
    if on:
        current._inheriting = True
    else:
        vars(current).pop("_inheriting", None)


def run_child(call: bytes) -> tuple[int, dict[str, str] | None]:
    """Run a ``Process`` that was handed over: its exit code, and what it raised."""
    obj = reduction.ForkingPickler.loads(call)
    run, raised = obj.run, []

    def told() -> None:
        try:
            run()
        except Exception as error:
            told = report(error)
            raised.append({"type": told.type, "message": told.text, "traceback": told.traceback})
            raise

    vars(obj)["run"] = told
    code: int = obj._bootstrap()
    return code, raised[0] if raised else None


def terminate_children() -> None:
    """As a process does that an exception has ended."""
    for child in multiprocessing.active_children():
        child.terminate()


def end_children() -> None:
    """As a process does that ends: daemons are terminated, others waited for."""
    sys.stdout.flush()
    for child in multiprocessing.active_children():
        if child.daemon:
            child.terminate()
    for child in multiprocessing.active_children():
        child.join()
