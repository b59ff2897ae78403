"""``multiprocessing`` and ``torch.multiprocessing`` as a simulated process sees them."""

from __future__ import annotations

import functools
import importlib
import multiprocessing as real_multiprocessing
import multiprocessing.connection as real_connection
import signal
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch.multiprocessing as real_torch_multiprocessing
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException

from squall.sim.scripts.compat import children, managers, shared
from squall.sim.scripts.compat.children import process_object
from squall.sim.scripts.compat.errors import report
from squall.sim.scripts.compat.facades import Facade
from squall.sim.scripts.compat.process import current_process
from squall.sim.scripts.compat.waiting import wait_for_any

if TYPE_CHECKING:
    from squall.sim.scripts.compat.modules import ModuleSpace
    from squall.sim.scripts.compat.process import SimProcess

_SPAWN_ERROR = "torch.multiprocessing.spawn error"
_TERMINATION_WAIT_S = 30.0


class Context:
    """What ``multiprocessing.get_context`` gives; ``method`` None: the process's default."""

    def __init__(self, method: str | None = None) -> None:
        self._method = method
        self.Process: type[children.BaseProcess] = {
            None: children.Process,
            "spawn": children.SpawnProcess,
            "fork": children.ForkProcess,
            "forkserver": children.ForkServerProcess,
        }[method]
        self.__dict__.update(_SHARED)
        self.Pool = functools.partial(make_pool, context=self)

    def get_start_method(self, allow_none: bool = False) -> str | None:
        if self._method is not None:
            return self._method
        process = current_process()
        if allow_none:
            return children.chosen_start_method(process)
        return children.start_method(process)

    def set_start_method(self, method: str | None, force: bool = False) -> None:
        if self._method is not None:
            raise ValueError("cannot set start method of concrete context")
        children.set_start_method(current_process(), method, force)

    def get_context(self, method: str | None = None) -> Context:
        if method is None:
            return self
        children.check_start_method(method)
        return Context(method)

    def get_all_start_methods(self) -> list[str]:
        return list(children.START_METHODS)

    def __reduce__(self) -> tuple[Any, ...]:
        return Context, (self._method,)


def _synchronizer(kind: str) -> Callable[..., Any]:
    def make(*args: Any, **kwargs: Any) -> shared.Synchronizer:
        return shared.Synchronizer(kind, *args, **kwargs)

    make.__name__ = make.__qualname__ = kind
    return make


def make_pool(
    processes: int | None = None,
    initializer: Callable[..., object] | None = None,
    initargs: Iterable[Any] = (),
    maxtasksperchild: int | None = None,
    *,
    context: Context | None = None,
) -> Any:
    """``multiprocessing.Pool``: the standard library's, over simulated processes."""
    pool: Any = current_process().space.load("multiprocessing.pool")
    own = context or Context()
    return pool.Pool(processes, initializer, initargs, maxtasksperchild, context=own)


def current_process_object() -> children.BaseProcess:
    return process_object(current_process())


class _ParentProcess:
    """``multiprocessing.parent_process()``."""

    def __init__(self, process: SimProcess, name: str) -> None:
        self._process = process
        self.name = name
        self.pid = self.ident = process.pid

    def is_alive(self) -> bool:
        return not self._process.has_ended

    def join(self, timeout: float | None = None) -> None:
        self._process.ended.wait(timeout)


def parent_process() -> _ParentProcess | None:
    process = current_process()
    if process.parent is None:
        return None
    return _ParentProcess(process.parent, process_object(process.parent).name)


def freeze_support() -> None:
    """Nothing to do."""


_SHARED: dict[str, Any] = {
    "Array": shared.make_array,
    "Barrier": _synchronizer("Barrier"),
    "BoundedSemaphore": _synchronizer("BoundedSemaphore"),
    "Condition": _synchronizer("Condition"),
    "Event": _synchronizer("Event"),
    "JoinableQueue": shared.Queue,
    "Lock": _synchronizer("Lock"),
    "Manager": managers.Manager,
    "Pipe": shared.pipe,
    "Pool": make_pool,
    "Queue": shared.Queue,
    "RLock": _synchronizer("RLock"),
    "RawArray": shared.make_array,
    "RawValue": shared.make_value,
    "Semaphore": _synchronizer("Semaphore"),
    "SimpleQueue": shared.Queue,
    "Value": shared.make_value,
    "active_children": children.active_children,
    "cpu_count": real_multiprocessing.cpu_count,
    "current_process": current_process_object,
    "freeze_support": freeze_support,
    "parent_process": parent_process,
}


def _default_names() -> dict[str, Any]:
    context = Context()
    return {
        **_SHARED,
        "Process": children.Process,
        "get_all_start_methods": context.get_all_start_methods,
        "get_context": context.get_context,
        "get_start_method": context.get_start_method,
        "set_start_method": context.set_start_method,
    }


def make_multiprocessing(space: ModuleSpace) -> ModuleType:
    return Facade(space, real_multiprocessing, _default_names())


def make_connection(space: ModuleSpace) -> ModuleType:
    return Facade(
        space,
        real_connection,
        {"Connection": shared.Connection, "Pipe": shared.pipe, "wait": wait},
    )


def make_process_module(space: ModuleSpace) -> ModuleType:
    names = {
        "BaseProcess": children.BaseProcess,
        "active_children": children.active_children,
        "current_process": current_process_object,
        "parent_process": parent_process,
    }
    return Facade(space, importlib.import_module("multiprocessing.process"), names)


def make_queues(space: ModuleSpace) -> ModuleType:
    names = dict.fromkeys(("JoinableQueue", "Queue", "SimpleQueue"), shared.Queue)
    return Facade(space, importlib.import_module("multiprocessing.queues"), names)


def make_managers(space: ModuleSpace) -> ModuleType:
    names = {"BaseManager": managers.Manager, "SyncManager": managers.Manager}
    return Facade(space, importlib.import_module("multiprocessing.managers"), names)


def make_context_module(space: ModuleSpace) -> ModuleType:
    names = {
        "ForkProcess": children.ForkProcess,
        "ForkServerProcess": children.ForkServerProcess,
        "Process": children.Process,
        "SpawnProcess": children.SpawnProcess,
    }
    return Facade(space, importlib.import_module("multiprocessing.context"), names)


def wait(object_list: Iterable[Any], timeout: float | None = None) -> list[Any]:
    """``multiprocessing.connection.wait``, for sentinels, connections and readers of queues."""
    return wait_for_any(list(object_list), timeout)


# -- torch.multiprocessing -----------------------------------------------------------------------


def run_spawned(fn: Callable[..., object], index: int, args: tuple[Any, ...]) -> None:
    """What a process started by ``spawn`` does; its error is kept for the parent."""
    try:
        fn(index, *args)
    except Exception as error:
        process = current_process()
        process.error = report(error)
        process.locals[_SPAWN_ERROR] = process.error.traceback
        traceback.clear_frames(error.__traceback__)
        raise SystemExit(1) from None


class ProcessContext:
    """The processes that one call of ``start_processes`` has started."""

    def __init__(self, processes: Sequence[children.BaseProcess]) -> None:
        self.processes = list(processes)
        self._running = {process._live(): index for index, process in enumerate(processes)}

    def pids(self) -> list[int]:
        return [int(process.pid or 0) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for some to end; True once all have.

        Raises ProcessRaisedException or ProcessExitedException, the others being terminated,
        if one of them fails. Waits ``timeout`` seconds at most; after a failure, gives the rest
        ``grace_period`` seconds to end by themselves.
        """
        if not self._running:
            return True
        failed: int | None = None
        for process in wait_for_any(list(self._running), timeout):
            index = self._running.pop(process)
            if process.exit_code != 0:
                failed = index
                break
        if failed is None:
            return not self._running
        if grace_period is not None:
            self._join_all(grace_period)
        for process in [child._live() for child in self.processes]:
            process.terminate()
        self._join_all(_TERMINATION_WAIT_S)
        raise _failure(failed, self.processes[failed]._live())

    def _join_all(self, timeout: float) -> None:
        runtime = current_process().group.runtime
        end = runtime.now() + timeout
        for process in self.processes:
            process.join(max(0.0, end - runtime.now()))


class SpawnContext(ProcessContext):
    pass


def _failure(index: int, process: SimProcess) -> Exception:
    text = process.locals.get(_SPAWN_ERROR)
    if text is not None:
        return ProcessRaisedException(
            f"\n\n-- Process {index:d} terminated with the following error:\n{text}",
            index,
            process.pid,
        )
    code = process.exit_code or 0
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"<Unknown signal {-code}>"
        return ProcessExitedException(
            f"process {index:d} terminated with signal {name}",
            error_index=index,
            error_pid=process.pid,
            exit_code=code,
            signal_name=name,
        )
    return ProcessExitedException(
        f"process {index:d} terminated with exit code {code:d}",
        error_index=index,
        error_pid=process.pid,
        exit_code=code,
    )


def start_processes(
    fn: Callable[..., object],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Start ``fn(i, *args)`` in ``nprocs`` processes, and wait for them if ``join``."""
    context = Context().get_context(start_method)
    processes = []
    for index in range(nprocs):
        process = context.Process(target=run_spawned, args=(fn, index, args), daemon=daemon)
        process.start()
        processes.append(process)
    started = ProcessContext(processes)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable[..., object],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """``torch.multiprocessing.spawn``: :func:`start_processes` by the method "spawn"."""
    if start_method != "spawn":
        warnings.warn(
            f"This method only supports start_method=spawn (got: {start_method}).\n"
            "To use a different start_method use:\n\t\t"
            " torch.multiprocessing.start_processes(...)",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")


_SPAWN_NAMES: dict[str, Any] = {
    "ProcessContext": ProcessContext,
    "SpawnContext": SpawnContext,
    "spawn": spawn,
    "start_processes": start_processes,
}


def make_torch_multiprocessing(space: ModuleSpace) -> ModuleType:
    return Facade(space, real_torch_multiprocessing, {**_default_names(), **_SPAWN_NAMES})


def make_torch_spawn(space: ModuleSpace) -> ModuleType:
    return Facade(space, importlib.import_module("torch.multiprocessing.spawn"), _SPAWN_NAMES)
