"""``multiprocessing`` as a simulated process sees it."""

from __future__ import annotations

import functools
import importlib
import multiprocessing as real_multiprocessing
import multiprocessing.connection as real_connection
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from squall.sim.scripts.compat import children, managers, pipes, shared
from squall.sim.scripts.compat.children import process_object
from squall.sim.scripts.compat.facades import Facade
from squall.sim.scripts.compat.process import current_process
from squall.sim.scripts.compat.waiting import wait_for_any

if TYPE_CHECKING:
    from squall.sim.scripts.compat.modules import ModuleSpace
    from squall.sim.scripts.compat.process import SimProcess


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


def Manager() -> managers.SyncManager:  # noqa: N802 - the library's name
    return managers.SyncManager()


def Queue(maxsize: int = 0) -> shared.Queue:  # noqa: N802
    return shared.Queue(maxsize)


def JoinableQueue(maxsize: int = 0) -> shared.JoinableQueue:  # noqa: N802
    return shared.JoinableQueue(maxsize)


def SimpleQueue() -> shared.SimpleQueue:  # noqa: N802
    return shared.SimpleQueue()


def RawValue(typecode_or_type: Any, *args: Any) -> Any:  # noqa: N802
    return shared.make_value(typecode_or_type, *args)


def RawArray(typecode_or_type: Any, size_or_initializer: Any) -> Any:  # noqa: N802
    return shared.make_array(typecode_or_type, size_or_initializer)


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
    "JoinableQueue": JoinableQueue,
    "Lock": _synchronizer("Lock"),
    "Manager": Manager,
    "Pipe": pipes.pipe,
    "Pool": make_pool,
    "Queue": Queue,
    "RLock": _synchronizer("RLock"),
    "RawArray": RawArray,
    "RawValue": RawValue,
    "Semaphore": _synchronizer("Semaphore"),
    "SimpleQueue": SimpleQueue,
    "Value": shared.make_value,
    "active_children": children.active_children,
    "cpu_count": real_multiprocessing.cpu_count,
    "current_process": current_process_object,
    "freeze_support": freeze_support,
    "parent_process": parent_process,
}


def default_names() -> dict[str, Any]:
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
    return Facade(space, real_multiprocessing, default_names())


def make_connection(space: ModuleSpace) -> ModuleType:
    return Facade(
        space,
        real_connection,
        {"Connection": pipes.Connection, "Pipe": pipes.pipe, "wait": wait},
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
    names = {
        "JoinableQueue": shared.JoinableQueue,
        "Queue": shared.Queue,
        "SimpleQueue": shared.SimpleQueue,
    }
    return Facade(space, importlib.import_module("multiprocessing.queues"), names)


def make_managers(space: ModuleSpace) -> ModuleType:
    names = {"BaseManager": managers.BaseManager, "SyncManager": managers.SyncManager}
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
