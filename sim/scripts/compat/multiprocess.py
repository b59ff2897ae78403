"""``multiprocessing`` and ``torch.multiprocessing`` as a simulated process sees them: the standard library's,
and PyTorch's, executed for it, over what :class:`~.children.Coordinator` answers."""

from __future__ import annotations

import importlib
import itertools
import mmap
import pickle
from collections.abc import Callable
from functools import cache, partial
from importlib.machinery import SourceFileLoader
from importlib.util import spec_from_loader
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from squall.sim.scripts import multiprocess
from squall.sim.scripts.compat.children import StartsAgainError, coordinator, run_spawned
from squall.sim.scripts.compat.clock import look
from squall.sim.scripts.compat.module_facades import Facade
from squall.sim.scripts.compat.process_pickling import Parcel, opened
from squall.sim.scripts.compat.random_state import entropy_kept
from squall.sim.scripts.compat.signatures import describe, describe_as
from squall.sim.scripts.compat.substitutes import front

if TYPE_CHECKING:
    from squall.sim.scripts.compat.modules import ModuleSpace, Substitute

#: under which name a process executes sim/scripts/multiprocess.py
_GUEST = "multiprocessing._squall"


def _loader() -> SourceFileLoader:
    return SourceFileLoader(_GUEST, str(multiprocess.__file__))


@cache
def _code() -> CodeType | None:
    return _loader().get_code(_GUEST)


def _make_guest(space: ModuleSpace) -> ModuleType:
    space.load("multiprocessing.connection")  # which it imports, and which is changed by it
    if _GUEST in space.loaded:
        return space.loaded[_GUEST]
    spec = spec_from_loader(_GUEST, _loader())
    assert spec is not None
    module: Any = space.execute(_GUEST, spec, _code())
    module.settle(partial(coordinator(space.process.group).ask, space.process), look)
    return module  # type: ignore[no-any-return]


class Ordered(dict[Any, None]):
    """A set of what has no order of its own, in the order in which it came."""

    def add(self, each: Any) -> None:
        self[each] = None

    def discard(self, each: Any) -> None:
        self.pop(each, None)


class Arena:
    """``multiprocessing.heap.Arena``: memory that processes share."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.buffer = mmap.mmap(-1, size)


class _Spawning:
    """For those who ask whether a process is being started, and which way."""

    def __init__(self, is_fork: bool) -> None:
        self.is_fork = is_fork


def _into_process(module: Any, space: ModuleSpace) -> None:
    def without_looking() -> None:
        for child in list(module._children):
            if child._popen is not None and child._popen.wait(0) is not None:
                module._children.discard(child)

    def _begin(obj: Any) -> None:
        """The current process is this one."""
        if obj._start_method is not None:
            space.load("multiprocessing.context")._force_start_method(obj._start_method)
        parent = module._ParentProcess(obj._parent_name, obj._parent_pid, -obj._parent_pid)
        vars(module).update(
            _current_process=obj,
            _parent_process=parent,
            _process_counter=itertools.count(1),
            _children=Ordered(),
        )
        obj._after_fork()

    vars(module).update(_children=Ordered(), _cleanup=without_looking, _begin=_begin)


def _into_context(module: Any, space: ModuleSpace) -> None:
    def start(forked: bool, obj: Any) -> Any:
        if space.process.is_silent:
            raise StartsAgainError
        space.load("multiprocessing.spawn")._check_not_importing_main()
        guest: Any = space.load(_GUEST)
        before = module.get_spawning_popen()
        module.set_spawning_popen(_Spawning(forked))
        try:
            return guest.Popen(guest._ask("child", obj, forked))
        finally:
            module.set_spawning_popen(before)

    for kind in (module.ForkProcess, module.SpawnProcess, module.ForkServerProcess):
        kind._Popen = staticmethod(partial(start, kind is module.ForkProcess))


def _into_reduction(module: Any, space: ModuleSpace) -> None:
    def dumps(cls: type, obj: Any, protocol: int | None = None) -> Parcel:
        return Parcel(obj, space)

    def loads(data: Any) -> Any:
        return opened(data)

    describe_as(loads, pickle.loads)
    module.ForkingPickler.dumps = classmethod(dumps)
    module.ForkingPickler.loads = staticmethod(loads)


def _into_util(module: Any, space: ModuleSpace) -> None:
    module._close_stdin = lambda: None


def _into_heap(module: Any, space: ModuleSpace) -> None:
    module.Arena = Arena


def _by_guest(word: str) -> Callable[[Any, ModuleSpace], None]:
    def into(module: Any, space: ModuleSpace) -> None:
        getattr(space.load(_GUEST), word)(module)

    return into


_CHANGES: dict[str, Callable[[Any, ModuleSpace], None]] = {
    "multiprocessing.connection": _by_guest("into_connection"),
    "multiprocessing.context": _into_context,
    "multiprocessing.heap": _into_heap,
    "multiprocessing.managers": _by_guest("into_managers"),
    "multiprocessing.process": _into_process,
    "multiprocessing.reduction": _into_reduction,
    "multiprocessing.synchronize": _by_guest("into_synchronize"),
    "multiprocessing.util": _into_util,
}
#: what the module ``torch.multiprocessing`` has of its module ``spawn``
SPAWN = (
    "ProcessContext",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "spawn",
    "start_processes",
)


def _changed(name: str) -> Substitute:
    def make(space: ModuleSpace) -> ModuleType:
        with entropy_kept():  # a key, which the real module has drawn before a script begins
            module = space.execute_library(name)
        before = dict(vars(module))
        _CHANGES[name](module, space)
        new = {key: value for key, value in vars(module).items() if before.get(key) is not value}
        describe(new, importlib.import_module(name))
        return module

    return make


def _make_spawn(space: ModuleSpace) -> ModuleType:
    # It has next to nothing to log, and threads only if its environment says so: those of all processes do.
    shared = [name for name in ("concurrent.futures", "logging") if name not in space.loaded]
    space.loaded.update({name: importlib.import_module(name) for name in shared})
    try:
        module: Any = space.execute_library("torch.multiprocessing.spawn")
    finally:
        for name in shared:
            del space.loaded[name]
    module._wrap = run_spawned
    # A function of that name is in the place of this module.
    package = space.load("torch.multiprocessing")
    vars(package).update({name: vars(module)[name] for name in SPAWN})
    return module  # type: ignore[no-any-return]


class _Semaphores(Facade):
    """``_multiprocessing``, whose semaphores are those of the simulation."""

    def __getattr__(self, name: str) -> Any:
        if name != "SemLock":
            return super().__getattr__(name)
        own = self.__dict__
        found = own[name] = own["_facade_space"].load(_GUEST).SemLock
        describe({name: found}, own["_facade_real"])
        return found


def _make_semaphores(space: ModuleSpace) -> ModuleType:
    return _Semaphores(space, importlib.import_module("_multiprocessing"))


class _TorchMultiprocessing(Facade):
    """``torch.multiprocessing``, whose module ``spawn`` is executed when it is needed."""

    def __getattr__(self, name: str) -> Any:
        if name in SPAWN:
            space: ModuleSpace = self.__dict__["_facade_space"]
            return getattr(space.load("torch.multiprocessing.spawn"), name)
        return super().__getattr__(name)


def _make_torch_multiprocessing(space: ModuleSpace) -> ModuleType:
    library: Any = space.load("multiprocessing")
    names = {name: getattr(library, name) for name in library.__all__}
    return _TorchMultiprocessing(space, importlib.import_module("torch.multiprocessing"), names)


SUBSTITUTES: dict[str, Substitute] = {
    "_multiprocessing": _make_semaphores,
    _GUEST: _make_guest,
    # That of the process in which all of them are: what they leave behind goes when it ends.
    "multiprocessing.resource_tracker": front("multiprocessing.resource_tracker"),
    "torch.multiprocessing": _make_torch_multiprocessing,
    "torch.multiprocessing.spawn": _make_spawn,
    **{name: _changed(name) for name in _CHANGES},
}
PRIVATE = ("multiprocessing", "torch.multiprocessing")
