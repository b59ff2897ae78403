"""``multiprocessing.Process``: a child of a simulated process.

A spawned child imports the script afresh as ``__mp_main__``. A forked one cannot copy its parent's
memory; it does the same, silently, and is then given the parent's module globals that can be
pickled, so that ``args = parse_args()`` under ``if __name__ == "__main__"`` is there for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from squall.sim.scripts.compat.carry import Parcel
from squall.sim.scripts.compat.forked import Memory, rebound
from squall.sim.scripts.compat.modules import CHILD_MAIN
from squall.sim.scripts.compat.process import (
    FORKS_RUN_EXIT_HANDLERS,
    OWN_RANK,
    SimProcess,
    current_process,
)
from squall.sim.scripts.ranks import inherited

_SELF = "multiprocessing.current_process"
_AUTHKEY = b"simulated"
START_METHODS = ("fork", "spawn", "forkserver")
_LIVE = "_sim"
_CHILDREN = "multiprocessing.children"
_START_METHOD = "multiprocessing start method"


class BaseProcess:
    """``multiprocessing.process.BaseProcess``."""

    _start_method: str | None = None

    def __init__(
        self,
        group: None = None,
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        assert group is None, "group argument must be None for now"
        parent = process_object(current_process())
        count = current_process().count("multiprocessing")
        self._identity: tuple[int, ...] = (*parent._identity, count)
        self._sim: SimProcess | None = None
        self._parent_pid: int | None = current_process().pid
        self._parent_name: str | None = parent.name
        self._target = target
        self._args = tuple(args)
        self._kwargs = dict(kwargs or {})
        label = ":".join(str(number) for number in self._identity)
        self._name = name or f"{type(self).__name__}-{label}"
        self._daemonic = parent.daemon if daemon is None else bool(daemon)
        self._authkey = _AUTHKEY

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != _LIVE}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._sim = None

    def run(self) -> None:
        """What the child does; may be overridden."""
        if self._target is not None:
            self._target(*self._args, **self._kwargs)

    def start(self) -> None:
        """Start the child. Raises what pickling raises, and AssertionError as Python does."""
        assert self._sim is None, "cannot start a process twice"
        parent = current_process()
        assert not parent.daemon, "daemonic processes are not allowed to have children"
        method = self._start_method or start_method(parent)
        self._sim = _start_child(self, parent, method)
        # The child has its own copy of these now.
        del self._target, self._args, self._kwargs

    def terminate(self) -> None:
        self._live().terminate()

    def kill(self) -> None:
        self._live().terminate(-9)

    def join(self, timeout: float | None = None) -> None:
        assert self._sim is not None, "can only join a started process"
        self._sim.ended.wait(timeout)

    def is_alive(self) -> bool:
        if self._sim is None:
            return False
        # Whoever polls lets the others run.
        self._sim.group.runtime.look()
        return not self._sim.ended.is_set()

    def close(self) -> None:
        """Raises ValueError while the child runs."""
        if self._sim is not None and not self._sim.ended.is_set():
            raise ValueError(
                "Cannot close a process while it is still running: join() or terminate() it first"
            )

    def _live(self) -> SimProcess:
        assert self._sim is not None, "can only be called on a started process"
        return self._sim

    @property
    def name(self) -> str:
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        assert isinstance(name, str), "name must be a string"
        self._name = name

    @property
    def daemon(self) -> bool:
        return self._daemonic

    @daemon.setter
    def daemon(self, daemonic: bool) -> None:
        assert self._sim is None, "process has already started"
        self._daemonic = daemonic

    @property
    def authkey(self) -> bytes:
        return self._authkey

    @authkey.setter
    def authkey(self, authkey: bytes) -> None:
        self._authkey = bytes(authkey)

    @property
    def exitcode(self) -> int | None:
        if self._sim is None or not self._sim.ended.is_set():
            return None
        return self._sim.exit_code

    @property
    def pid(self) -> int | None:
        return self._sim.pid if self._sim is not None else None

    ident = pid

    @property
    def sentinel(self) -> Any:
        """What :func:`wait` waits for."""
        return Sentinel(self._live())

    def __repr__(self) -> str:
        if self._sim is None:
            status = "initial"
        elif self._sim.ended.is_set():
            status = f"stopped exitcode={self._sim.exit_code}"
        else:
            status = "started"
        daemon = " daemon" if self._daemonic else ""
        return f"<{type(self).__name__} name={self._name!r} {status}{daemon}>"


class Process(BaseProcess):
    """Starts by the default method."""


class SpawnProcess(BaseProcess):
    _start_method = "spawn"


class ForkProcess(BaseProcess):
    _start_method = "fork"


class ForkServerProcess(BaseProcess):
    _start_method = "forkserver"


class _MainProcess(BaseProcess):
    """``current_process()`` where no parent is known."""

    def __init__(self, process: SimProcess) -> None:
        self._identity = ()
        self._sim = process
        self._name = "MainProcess"
        self._daemonic = False
        self._parent_pid = None
        self._parent_name = None
        self._authkey = _AUTHKEY


class Sentinel:
    """Stands for the file descriptor that becomes readable when a process has ended."""

    def __init__(self, process: SimProcess) -> None:
        self.process = process
        self.watchers = process.watchers

    def is_ready(self) -> bool:
        return self.process.is_ready()

    def __str__(self) -> str:
        return f"the end of {self.process}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sentinel) and other.process is self.process

    def __hash__(self) -> int:
        return self.process.pid


def process_object(process: SimProcess) -> BaseProcess:
    """What ``multiprocessing.current_process()`` gives in ``process``."""
    found: BaseProcess | None = process.locals.get(_SELF)
    if found is None:
        found = process.locals[_SELF] = _MainProcess(process)
    return found


def active_children() -> list[BaseProcess]:
    """The children of the current process that have not ended."""
    children: list[BaseProcess] = current_process().locals.get(_CHILDREN, [])
    return [child for child in children if child._live().exit_code is None]


def set_start_method(process: SimProcess, method: str | None, force: bool = False) -> None:
    """Raises RuntimeError if it is set already, ValueError for an unknown method."""
    if process.locals.get(_START_METHOD) is not None and not force:
        raise RuntimeError("context has already been set")
    if method is None:
        process.locals.pop(_START_METHOD, None)
        return
    check_start_method(method)
    process.locals[_START_METHOD] = method


def chosen_start_method(process: SimProcess) -> str | None:
    method: str | None = process.locals.get(_START_METHOD)
    return method


def check_start_method(method: str) -> None:
    if method not in START_METHODS:
        raise ValueError(f"cannot find context for {method!r}")


def start_method(process: SimProcess) -> str:
    """The default start method, Linux's unless the process has chosen one."""
    return str(process.locals.get(_START_METHOD, START_METHODS[0]))


def _start_child(child: BaseProcess, parent: SimProcess, method: str) -> SimProcess:
    memory = Memory(parent) if method == "fork" else None
    carried = _carry(child, parent, memory)
    environ = inherited(parent.environ, parent.locals.get(OWN_RANK, {}))
    process = parent.group.create(
        name=child.name,
        parent=parent,
        rank=None,
        argv=parent.argv,
        environ=environ,
        path=parent.space.path,
        daemon=child.daemon,
    )
    process.runs_exit_handlers = memory is None or FORKS_RUN_EXIT_HANDLERS

    def body() -> None:
        _import_main(process, memory)
        if memory is not None:
            process.exit_handlers.clear()  # those were the parent's
        obj = carried()
        obj._sim = process
        process.locals[_SELF] = obj
        process.locals[_START_METHOD] = method
        obj.run()

    process.start(body)
    parent.locals.setdefault(_CHILDREN, []).append(child)
    return process


def _carry(
    child: BaseProcess, parent: SimProcess, memory: Memory | None
) -> Callable[[], BaseProcess]:
    """What gives the new process its own copy of ``child``. Raises what pickling raises."""
    try:
        return Parcel(child, parent.space, share=memory is None).open
    except Exception:
        if memory is None:
            raise
    # A forked child inherits what cannot be pickled: local functions, open files.
    copy = type(child).__new__(type(child))
    copy.__dict__.update(child.__dict__)

    def inherited() -> BaseProcess:
        copy._target = rebound(copy._target)
        return copy

    return inherited


def _import_main(process: SimProcess, memory: Memory | None) -> None:
    if process.script is None:
        return
    if memory is None:
        process.run_script(CHILD_MAIN)
        return
    process.is_silent = True
    try:
        process.run_script(CHILD_MAIN)
    finally:
        process.is_silent = False
    memory.restore(process)
