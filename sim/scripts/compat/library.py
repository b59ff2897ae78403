"""Standard-library modules that every simulated process executes for itself, from their source.

They build on threads, clocks or entropy; on top of this process's ``_thread``, ``time`` and ``os``
they do in virtual time what they always do. Imports no torch.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from squall.sim.scripts.compat.module_facades import Facade
from squall.sim.scripts.compat.owner import current_owner
from squall.sim.scripts.compat.threads import ThreadTable
from squall.sim.scripts.event_loop import install as install_event_loop
from squall.sim.world.places import tell_as

tell_as(ThreadTable.__module__, "threading")

if TYPE_CHECKING:
    from squall.sim.scripts.compat.modules import ModuleSpace

#: executed per process as they are
PRIVATE = (
    "asyncio",
    "concurrent.futures",
    "logging",
    "queue",
    "sched",
    "secrets",
    "timeit",
    "uuid",
)


def thread_table(space: ModuleSpace) -> ThreadTable:
    """The threads of the process, made at the first import of a module that needs them."""
    process = space.process
    table: ThreadTable | None = process.threads
    if table is None:
        main = process.main_task
        ident = main.id if main is not None else space.runtime.running.id
        table = process.threads = ThreadTable(space.runtime, ident)
    return table


def make_thread(space: ModuleSpace) -> ModuleType:
    return thread_table(space).module()


def make_threading(space: ModuleSpace) -> ModuleType:
    table = thread_table(space)
    # Whichever task imports it first: the main thread is the main task of the process.
    table.as_main = True
    try:
        module = space.execute_library("threading")
    finally:
        table.as_main = False
    table.forget_dummies(module)
    # The library's own RLock, over this process's locks; ``dill`` and others take it from here.
    space.load("_thread").__dict__["RLock"] = module.__dict__["_RLock"]
    return module


def make_queue_core(space: ModuleSpace) -> ModuleType:
    """``_queue`` without its SimpleQueue, which would block the whole simulation."""
    import _queue

    module = ModuleType("_queue")
    module.Empty = _queue.Empty  # type: ignore[attr-defined]
    return module


def make_asyncio(space: ModuleSpace) -> ModuleType:
    """``asyncio`` on this process's threads and time."""
    module = space.execute_library("asyncio")
    base: Any = space.load("asyncio.base_events")
    # A thread of the interpreter has one pair of hooks, and here all tasks share that thread.
    base.sys = Facade(
        space, sys, {"set_asyncgen_hooks": _no_hooks, "get_asyncgen_hooks": _no_hooks}
    )
    install_event_loop(module, space.load("threading"), space.load("time").monotonic)
    return module


def _no_hooks(*_: object, **__: object) -> tuple[None, None]:
    return None, None


def make_asyncio_core(space: ModuleSpace) -> ModuleType:
    """Raises ImportError: compiled, it keeps the running loop by thread of the interpreter, which all
    tasks share. Without it ``asyncio`` uses its own Python code."""
    raise ImportError("no compiled asyncio in a simulated process", name="_asyncio")


def make_logging(space: ModuleSpace) -> ModuleType:
    module: Any = space.execute_library("logging")
    # Loggers travel by name, to the logging module of the process that receives them.
    module.Logger.__reduce__ = _reduce_logger
    module.RootLogger.__reduce__ = _reduce_logger
    return module  # type: ignore[no-any-return]


def _reduce_logger(logger: Any) -> tuple[Any, ...]:
    return find_logger, (logger.name,)


def find_logger(name: str) -> Any:
    """The logger of that name in the current process."""
    logging: Any = current_owner().modules
    return logging.load("logging").getLogger(None if name == "root" else name)
