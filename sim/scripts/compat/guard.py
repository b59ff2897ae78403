"""Nothing real happens silently, whatever the modules do that all processes share: compiled packages, and
modules of torch that build on groups.

What they ask of ``torch.distributed`` is answered by the groups of the process that runs, and a sleep takes its
virtual time. What a process asks of this machine in a way that is not simulated is refused, with the line
that asked: connections and processes are seen by an audit hook (PEP 578), threads where they start,
PyTorch's compiled stores and groups by their constructors.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache, wraps
from types import BuiltinFunctionType, FrameType, FunctionType
from typing import Any

import torch
from torch._C import _distributed_c10d as c10d
from torch.distributed import _functional_collectives as functional
from torch.distributed import distributed_c10d

from squall.real.own_files import OWN_FILES
from squall.sim.scripts.backends import numbered
from squall.sim.scripts.compat import collectives
from squall.sim.scripts.compat.groups import GroupHandle, registered
from squall.sim.scripts.compat.process import current_process, current_process_or_none
from squall.sim.world.places import place_of

#: what is not done, by audit event
_REFUSED = {
    "os.fork": "a real process",
    "os.forkpty": "a real process",
    "socket.connect": "a real connection",
    "socket.sendmsg": "a real message",
    "socket.sendto": "a real message",
}
#: by constructor, or function, of PyTorch's compiled code
_COMPILED = {
    "ProcessGroupGloo": "a real process group",
    "TCPStore": "a real TCPStore",
    "_resolve_process_group": "a compiled process group",
}
#: how many runs are going on, in the task that enters them
_open = 0


class NotSimulatedError(NotImplementedError):
    """Something that the engine does not simulate was about to happen; the text says so, and what to do."""


def refuse(what: str) -> None:
    """Raises NotSimulatedError if a simulated process asks for it."""
    if not _open or current_process_or_none() is None:
        return
    frame = _asking(sys._getframe(1))
    if frame is None:
        return
    module = frame.f_globals.get("__name__", "?")
    by = f"{module} ({frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno})"
    where = place_of(frame)
    called = f", at {where}" if where and not where.startswith(by.partition("(")[2][:-1]) else ""
    raise NotSimulatedError(
        f"{by} asks for {what}{called}: on the engine port that is not simulated, and would escape "
        "the run; on --engine torch each worker is a process, and it works there"
    )


def _asking(frame: FrameType | None) -> FrameType | None:
    """Whoever asks; None if it is squall itself."""
    own = (__file__, *_BETWEEN)
    while frame is not None and frame.f_code.co_filename.startswith(own):
        frame = frame.f_back
    return None if frame is None or frame.f_code.co_filename.startswith(OWN_FILES) else frame


#: files of Python through which others ask
_BETWEEN = tuple(
    sys.modules[name].__file__ or "?" for name in ("threading", "socket") if name in sys.modules
)


@contextlib.contextmanager
def nothing_real() -> Iterator[None]:
    """While this is open, simulated processes get what is simulated, or an error."""
    global _open
    _install()
    _open += 1
    try:
        yield
    finally:
        _open -= 1


@cache
def _install() -> None:
    """For as long as the interpreter lives, as hooks do."""
    sys.addaudithook(_hook)
    registered()
    put: dict[Any, Callable[..., Any]] = {}
    for name, what in _COMPILED.items():
        compiled: Any = getattr(c10d, name, None)
        if isinstance(compiled, type):
            compiled.__init__ = _guarded(compiled.__init__, what)  # type: ignore[misc]
        elif compiled is not None:
            put[compiled] = _guarded(compiled, what)
    for name, function in collectives.NAMES.items():
        real = getattr(distributed_c10d, name, None)
        if isinstance(real, FunctionType):
            # That one looks at which functions of its own operations are.
            is_batch = name == "batch_isend_irecv"
            put[real] = numbered(real) if is_batch else _forwarded(real, function)
    GroupHandle.__getattr__ = _of_a_compiled_group  # type: ignore[attr-defined]
    for name in ("_get_object_coll_device", "_get_pg_default_device"):
        setattr(distributed_c10d, name, _on_the_cpu(getattr(distributed_c10d, name)))
    for name in ("_resolve_group", "_resolve_group_name"):
        if resolve := vars(functional).get(name):
            setattr(functional, name, _resolved(resolve))
    for name in ("_start_new_thread", "_start_joinable_thread"):
        if hasattr(threading, name):
            setattr(threading, name, _guarded(getattr(threading, name), "a real thread"))
    time.sleep = _forwarded(time.sleep, _sleep)
    # Modules that are imported later find them here; others have them already.
    for module in [m for name, m in sys.modules.items() if name.startswith("torch.distributed")]:
        for name, value in list(vars(module).items()):
            if type(value) in (FunctionType, BuiltinFunctionType) and value in put:
                setattr(module, name, put[value])


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if _open and event in _REFUSED:
        refuse(_REFUSED[event])


def _guarded(real: Callable[..., Any], what: str) -> Callable[..., Any]:
    @wraps(real)
    def call(*args: Any, **kwargs: Any) -> Any:
        refuse(what)
        return real(*args, **kwargs)

    return call


def _of_a_compiled_group(group: GroupHandle, name: str) -> Any:
    if hasattr(c10d.ProcessGroup, name):
        refuse(f"{name} of a compiled process group")
    raise AttributeError(f"{type(group).__name__!r} object has no attribute {name!r}")


def _resolved(real: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(real)
    def call(group: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(group, GroupHandle):
            refuse("a functional collective")
        return real(group, *args, **kwargs)

    return call


def _on_the_cpu(real: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(real)
    def call(group: Any = None) -> Any:
        return torch.device("cpu") if isinstance(group, GroupHandle) else real(group)

    return call


def _sleep(seconds: float) -> None:
    current_process().space.load("time").sleep(seconds)


def _forwarded(real: Callable[..., Any], simulated: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(real)
    def call(*args: Any, **kwargs: Any) -> Any:
        inside = _open and current_process_or_none() is not None
        inside = inside and _asking(sys._getframe(1)) is not None
        return (simulated if inside else real)(*args, **kwargs)

    return call
