"""Inside a worker process of a script: ``multiprocessing.Process``, whose processes the coordinator
starts.

Whatever the start method, a child is what ``spawn`` makes: a new process that runs the module and is
handed the pickled ``Process``. So ``fork`` copies no memory here, and what a module makes under
``if __name__ == "__main__"`` is not there.
"""

from __future__ import annotations

import multiprocessing
import os
import stat
import sys
import weakref
from collections.abc import Callable
from functools import partial
from multiprocessing import (
    connection,
    context,
    managers,
    pool,
    process,
    reduction,
    resource_tracker,
    spawn,
    synchronize,
)
from typing import Any

from squall.real.native.here import Here
from squall.sim.scripts import multiprocess
from squall.sim.scripts.compat.errors import Uncaught, exited, report

_context: Any = context
_reduction: Any = reduction
_spawn: Any = spawn
_process: Any = process
#: what a process runs that ``torch.multiprocessing.spawn`` has started
_spawned: Any = vars(sys.modules["torch.multiprocessing.spawn"])["_wrap"]


class SharedFile:
    """A file in memory that two processes have, as a storage of tensors is: by its number in the one that
    has started the other."""

    def __init__(self, pid: int, fd: int) -> None:
        self._place = f"/proc/{pid}/fd/{fd}"

    def detach(self) -> int:
        """Open it here."""
        return os.open(self._place, os.O_RDWR)


class SentFile(SharedFile):
    """The same in what is sent to a process that is there: kept open until it is opened there."""

    def __init__(self, fd: int) -> None:
        self._file = int(os.readlink("/proc/self")), os.dup(fd)
        super().__init__(*self._file)

    def detach(self) -> int:
        found = super().detach()
        Here.process().ask("file taken", *self._file)
        return found


def _sent_file(fd: int) -> SharedFile:
    parcel = _context.get_spawning_popen()
    if parcel is None:
        return SentFile(fd)
    shared: SharedFile = parcel.DupFd(parcel.duplicate_for_child(fd))
    return shared


class Parcel:
    """Pickles for a process that is started: tensors go by shared memory, as ``torch.multiprocessing``
    has it. What they lie in stays open here as long as this is kept."""

    def __init__(self) -> None:
        self._kept: list[int] = []
        weakref.finalize(self, _close, self._kept)

    def pack(self, obj: Any) -> bytes:
        """Raises RuntimeError for what processes do not share here: pipes of the operating system."""
        before = _context.get_spawning_popen()
        _context.set_spawning_popen(self)
        try:
            return bytes(reduction.ForkingPickler.dumps(obj))
        finally:
            _context.set_spawning_popen(before)

    def duplicate_for_child(self, fd: int) -> int:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise RuntimeError(
                "on the engine torch processes of a script share memory and what multiprocessing has, but "
                "no sockets and no pipes of the operating system"
            )
        self._kept.append(os.dup(fd))
        return self._kept[-1]

    def DupFd(self, fd: int) -> SharedFile:  # noqa: N802 - multiprocessing calls it so
        return SharedFile(int(os.readlink("/proc/self")), fd)


def _close(fds: list[int]) -> None:
    while fds:
        os.close(fds.pop())


def install(here: Here, look: Callable[[], object]) -> None:
    """Let the processes that the script makes from now on be the coordinator's. ``look``: called by
    who asks whether one has ended."""
    multiprocess.settle(here.ask, look)
    multiprocess.into_connection(connection)
    multiprocess.into_synchronize(synchronize)
    multiprocess.into_resource_tracker(resource_tracker)
    multiprocess.into_managers(managers)
    vars(synchronize)["_multiprocessing"].SemLock = multiprocess.SemLock
    # These have it by its name.
    vars(pool)["wait"] = connection.wait
    vars(managers)["listener_client"].update(pickle=(connection.Listener, connection.Client))
    _reduction.DupFd = _sent_file
    for kind in (_context.ForkProcess, _context.SpawnProcess, _context.ForkServerProcess):
        forked = kind is _context.ForkProcess  # it ends without the handlers of atexit
        kind._Popen = staticmethod(partial(_start, here, forked))
    vars(os).update(_signals(here))


def _start(here: Here, forked: bool, obj: Any) -> multiprocess.Popen:
    _spawn._check_not_importing_main()
    parcel = Parcel()
    call = parcel.pack(obj)
    number = obj._args[1] if obj._target is _spawned else None
    return multiprocess.Popen(here.ask("child", call, dict(os.environ), forked, number), parcel)


def _signals(here: Here) -> dict[str, Any]:
    """By name: functions of ``os`` that would reach real processes by the numbers of simulated ones. A process
    that another one starts has a group of its own, which is what those who ask want."""
    kill, killpg, getpgid = os.kill, os.killpg, os.getpgid

    def to(pid: int, number: int) -> None:
        problem = here.ask("child kill", pid, int(number))
        if problem is not None:
            raise problem

    def of_one(pid: int, signal: int, /) -> None:
        kill(pid, signal) if pid == os.getpid() else to(pid, signal)

    def of_group(pgid: int, signal: int, /) -> None:
        killpg(pgid, signal) if pgid == os.getpgrp() else to(pgid, signal)

    def group(pid: int, /) -> int:
        return getpgid(pid) if pid in (0, os.getpid()) else pid

    return {"kill": of_one, "killpg": of_group, "getpgid": group}


def importing(on: bool) -> None:
    """Whether the module of the script is run for a new process, which must start none then."""
    current = _process.current_process()
    if on:
        current._inheriting = True
    else:
        vars(current).pop("_inheriting", None)


def run_child(call: bytes) -> tuple[int, Uncaught | None]:
    """Run a ``Process`` that was handed over: its exit code, and what it raised."""
    obj = reduction.ForkingPickler.loads(call)
    run, raised = obj.run, []

    def told() -> None:
        try:
            run()
        except BaseException as error:
            own = _written(error)
            if isinstance(own, Exception):
                raised.append(report(own))
            elif isinstance(own, SystemExit) and own.code:
                code = own.code & 0xFF if isinstance(own.code, int) else 1
                raised.append(exited(code, own))
            raise

    vars(obj)["run"] = told
    code: int = obj._bootstrap()
    return code, raised[0] if raised else None


def _written(error: BaseException) -> BaseException | None:
    """What has ended a process: ``torch.multiprocessing.spawn`` writes it into a file, and exits."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    exits = trace is not None and trace.tb_frame.f_code is _spawned.__code__
    return error.__context__ if exits else error


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
