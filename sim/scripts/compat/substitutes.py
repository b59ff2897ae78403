"""Which modules a simulated process gets in place of the real ones. Imports no torch."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

from squall.sim.scripts.compat import clock, library, random_state, signals, systems
from squall.sim.scripts.compat.module_facades import Facade

if TYPE_CHECKING:
    from squall.sim.scripts.compat.modules import ModuleSpace, Substitute

#: library modules that are executed per process from their source, submodules included
STANDARD_PRIVATE = library.PRIVATE


def front(name: str) -> Substitute:
    """A facade that replaces nothing itself: it leads to the submodules that are replaced."""

    def make(space: ModuleSpace) -> ModuleType:
        return Facade(space, importlib.import_module(name))

    return make


#: replacements within the standard library and NumPy, by full name
STANDARD: dict[str, Substitute] = {
    "_asyncio": library.make_asyncio_core,
    "_queue": library.make_queue_core,
    "_thread": library.make_thread,
    "asyncio": library.make_asyncio,
    "atexit": systems.make_atexit,
    "concurrent": front("concurrent"),
    "fcntl": systems.make_fcntl,
    "importlib": systems.make_importlib,
    "importlib.util": systems.make_importlib_util,
    "logging": library.make_logging,
    "numpy": front("numpy"),
    "numpy.random": random_state.make_numpy_random,
    "os": systems.make_os,
    "random": random_state.make_random,
    "signal": signals.make_signal,
    "subprocess": systems.make_subprocess,
    "sys": systems.make_sys,
    "threading": library.make_threading,
    "time": clock.make_time,
}
