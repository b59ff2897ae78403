"""The ``_thread`` module of one simulated process.

The standard library's own ``threading.py`` runs on top of it, so that ``Thread``, ``Timer``,
``Condition``, ``Barrier`` and the rest behave as they do in Python; only what the interpreter
implements in C is given here, over the scheduler's tasks. Written for Python 3.11, 3.12 and
3.13, which ask for different things. Imports no torch.
"""

from __future__ import annotations

import _thread as real_thread
import copyreg
import itertools
import sys
import traceback
from collections import deque
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from greenlet import GreenletExit

from squall.real.own_files import without_own_frames
from squall.sim.scripts.compat.owner import current_owner
from squall.sim.scripts.compat.signatures import describe
from squall.sim.scripts.compat.thread_local import local
from squall.sim.scripts.unended import note, over
from squall.sim.world.busy_loop import SpinningError
from squall.sim.world.thread_origins import Started, started
from squall.sim.world.watch import current

if TYPE_CHECKING:
    from squall.sim.world.primitives import SimTask
    from squall.sim.world.scheduler import SimRuntime

_SENTINEL = "thread sentinel"
_REAPER = "dummy thread reaper"


class ThreadLock:
    """``_thread.lock``: may be released by any thread, and knows whether it is held."""

    __slots__ = ("__weakref__", "_number", "_owner", "_waiters")

    #: set by the subclass that each process gets
    _runtime: SimRuntime
    _numbers: itertools.count[int]

    def __init__(self) -> None:
        self._owner: SimTask | None = None
        self._waiters: deque[SimTask] = deque()
        self._number = next(self._numbers)

    def __reduce__(self) -> NoReturn:
        raise TypeError("cannot pickle '_thread.lock' object")

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if timeout != -1:
            if not blocking:
                raise ValueError("can't specify a timeout for a non-blocking call")
            if timeout < 0:
                raise ValueError("timeout value must be a non-negative number")
            if timeout > real_thread.TIMEOUT_MAX:
                raise OverflowError("timeout value is too large")
        runtime = self._runtime
        if runtime.preemptive:
            runtime.checkpoint()
        task = runtime.running
        if self._owner is None:
            self._owner = task
            return True
        if not blocking:
            return False
        if task is runtime.hub_task:
            raise RuntimeError(f"a destructor or a scheduler callback would block on {self!r}")
        self._waiters.append(task)
        return runtime.block(task, self, self._waiters, None if timeout == -1 else timeout)

    def release(self) -> None:
        if self._owner is None:
            raise RuntimeError("release unlocked lock")
        if self._waiters:
            self._owner = task = self._waiters.popleft()
            self._runtime.ready(task)
        else:
            self._owner = None

    def locked(self) -> bool:
        return self._owner is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    acquire_lock = acquire
    release_lock = release
    locked_lock = locked

    def _at_fork_reinit(self) -> None:
        self._owner = None
        self._waiters.clear()

    # threading keeps locks in sets: their order must not depend on addresses.
    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        held = f"held by {self._owner}" if self._owner is not None else "unlocked"
        return f"<thread lock {self._number} {held}>"


def inherited(lock: ThreadLock) -> Any:
    """How a forked child gets one of its own. Raises TypeError if somebody holds it."""
    if lock.locked():
        raise TypeError("a lock that is held stays so")
    return type(lock), ()


class LockKind(type):
    """Of the classes of locks: a process that is sent one has its own."""


def _own_lock() -> type[ThreadLock]:
    """That of the current process."""
    found: type[ThreadLock] = current_owner().modules.load("_thread").allocate_lock
    return found


def _reduce_kind(kind: Any) -> Any:
    return _own_lock, ()


copyreg.pickle(LockKind, _reduce_kind)


class ThreadHandle:
    """``_thread._ThreadHandle`` of Python 3.13: what one joins."""

    _runtime: SimRuntime

    def __init__(self) -> None:
        self._task: SimTask | None = None
        self._done = False
        self._event = self._runtime.event("the end of a thread")
        self.ident = 0
        self.daemon = True

    def is_done(self) -> bool:
        return self._done

    def _set_done(self) -> None:
        self._done = True
        self._event.set()

    def join(self, timeout: float | None = None) -> None:
        if self._task is not None and self._task is self._runtime.running and not self._done:
            raise RuntimeError("Cannot join current thread")
        self._event.wait(None if timeout is None or timeout < 0 else timeout)


def hooked(args: Any) -> None:
    """Python's own ``threading.excepthook``, without squall's own frames."""
    without_own_frames(args.exc_value)
    trace = None if args.exc_value is None else args.exc_value.__traceback__
    real_thread._excepthook(type(args)((args.exc_type, args.exc_value, trace, args.thread)))


class _DummyReaper:
    """Forgets the ``_DummyThread`` of a task that threading did not start, once it has ended."""

    def __init__(self, active: dict[int, Any], ident: int) -> None:
        self.active = active
        self.ident = ident

    def __del__(self) -> None:
        self.active.pop(self.ident, None)


class ThreadTable:
    """The threads of one process, and the modules ``_thread`` and ``threading`` they live in."""

    def __init__(self, runtime: SimRuntime, main_ident: int) -> None:
        self.runtime = runtime
        self.main_ident = main_ident
        self.handles: dict[ThreadHandle, None] = {}
        self.count = 0
        #: True while threading.py runs for the first time: its main thread is the process's
        self.as_main = False
        names: dict[str, Any] = {"_runtime": runtime, "__module__": "_thread"}
        self.lock_type = LockKind(
            "lock", (ThreadLock,), {**names, "_numbers": itertools.count(1), "__slots__": ()}
        )
        self.handle_type = type("_ThreadHandle", (ThreadHandle,), dict(names))

    # -- what _thread offers ----------------------------------------------------------------

    def get_ident(self) -> int:
        return self.main_ident if self.as_main else self.runtime.running.id

    def get_native_id(self) -> int:
        return self.get_ident()

    def start_new_thread(
        self, function: Callable[..., object], args: tuple[Any, ...], kwargs: Any = None, /
    ) -> int:
        if not callable(function):
            raise TypeError("first arg must be callable")
        if not isinstance(args, tuple):
            raise TypeError("2nd arg must be a tuple")
        thread = getattr(function, "__self__", None)
        return self._spawn(
            function,
            args,
            kwargs or {},
            name=_name(function),
            daemon=bool(getattr(thread, "daemon", True)),
            handle=None,
        ).id

    def start_joinable_thread(
        self, function: Callable[[], object], handle: Any = None, daemon: bool = True
    ) -> ThreadHandle:
        if handle is None:
            handle = self.handle_type()
        if handle._task is not None or handle._done:
            raise RuntimeError("thread already started")
        handle.daemon = daemon
        self.handles[handle] = None
        task = self._spawn(function, (), {}, name=_name(function), daemon=daemon, handle=handle)
        handle._task = task
        handle.ident = task.id
        return handle  # type: ignore[no-any-return]

    def _spawn(
        self,
        function: Callable[..., object],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        name: str,
        daemon: bool,
        handle: ThreadHandle | None,
    ) -> SimTask:
        self.count += 1
        task = self.runtime.spawn(
            self._run, function, args, kwargs, handle, name=name, daemon=daemon
        )
        if (begun := started(getattr(function, "__self__", None))) is not None:
            task.locals[Started] = begun
        note("threads", task)
        return task

    def _run(
        self,
        function: Callable[..., object],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        handle: ThreadHandle | None,
    ) -> None:
        try:
            function(*args, **kwargs)
        except (SystemExit, GreenletExit, SpinningError):
            pass
        except BaseException:
            if not self.runtime.is_killing:
                _report_ignored(function)
        finally:
            self.count -= 1
            over(self.runtime.running)
            sentinel = self.runtime.running.locals.pop(_SENTINEL, None)
            if sentinel is not None and sentinel.locked():
                sentinel.release()
            if handle is not None:
                self.handles.pop(handle, None)
                handle._set_done()

    def set_sentinel(self) -> ThreadLock:
        """A lock that is released when the calling thread has ended (3.11, 3.12)."""
        lock: ThreadLock = self.lock_type()
        if not self.as_main:
            self.runtime.running.locals[_SENTINEL] = lock
        return lock

    def forget_dummies(self, threading: Any) -> None:
        """Let the ``_DummyThread`` of a task that threading did not start go with the task."""
        dummy = threading._DummyThread
        init = dummy.__init__

        def init_and_watch(thread: Any) -> None:
            init(thread)
            ident: int = thread.ident
            self.runtime.running.locals[_REAPER] = _DummyReaper(threading._active, ident)

        dummy.__init__ = init_and_watch

    def make_thread_handle(self, ident: int) -> ThreadHandle:
        handle: ThreadHandle = self.handle_type()
        handle.ident = ident
        return handle

    def wait_for_threads(self) -> None:
        """Wait for every thread that is no daemon (3.13)."""
        while True:
            waiting = [handle for handle in self.handles if not handle.daemon]
            if not waiting:
                return
            for handle in waiting:
                handle.join()

    def _excepthook(self, args: Any, /) -> None:
        """``threading.excepthook``. A thread that ends with its process says nothing."""
        if not (self.runtime.is_killing or issubclass(args.exc_type, SpinningError)):
            watcher = current()
            if watcher is not None and args.exc_value is not None:
                watcher.thread_raised(args.exc_value)
            hooked(args)

    def module(self) -> ModuleType:
        """A fresh ``_thread`` module for this process."""
        module = ModuleType("_thread")
        names: dict[str, Any] = {
            "TIMEOUT_MAX": real_thread.TIMEOUT_MAX,
            "_ExceptHookArgs": real_thread._ExceptHookArgs,
            "LockType": self.lock_type,
            "_count": lambda: self.count,
            "_excepthook": self._excepthook,
            "_local": local,
            "allocate": self.lock_type,
            "allocate_lock": self.lock_type,
            "error": RuntimeError,
            "exit": _exit_thread,
            "exit_thread": _exit_thread,
            "get_ident": self.get_ident,
            "get_native_id": self.get_native_id,
            "interrupt_main": _interrupt_main,
            "stack_size": real_thread.stack_size,
            "start_new_thread": self.start_new_thread,
            "start_new": self.start_new_thread,
        }
        if sys.version_info < (3, 13):
            names["_set_sentinel"] = self.set_sentinel
        else:
            names.update(
                lock=self.lock_type,
                _ThreadHandle=self.handle_type,
                _get_main_thread_ident=lambda: self.main_ident,
                _make_thread_handle=self.make_thread_handle,
                _shutdown=self.wait_for_threads,
                start_joinable_thread=self.start_joinable_thread,
            )
        if sys.version_info >= (3, 12):
            names["_is_main_interpreter"] = lambda: True
            names["daemon_threads_allowed"] = lambda: True
        describe(names, real_thread)
        module.__dict__.update(names)
        return module


def _name(function: object) -> str:
    """What to call the task of a thread that starts with ``function``."""
    thread = getattr(function, "__self__", None)
    return str(getattr(thread, "name", None) or getattr(function, "__name__", "thread"))


def _exit_thread() -> None:
    raise SystemExit


def _interrupt_main(signum: int = 2, /) -> None:
    raise RuntimeError("a simulated process receives no signals")


def _report_ignored(function: object) -> None:
    print(f"Exception ignored in thread started by: {function!r}", file=sys.stderr)
    traceback.print_exc()
