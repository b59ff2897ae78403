"""``torch.jit`` as a simulated process sees it: TorchScript that makes calls itself is refused.

TorchScript knows ``rpc.rpc_async`` and its kin as operators of PyTorch's compiled engine, which a
process on this engine does not have.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, get_origin

import torch

from squall.real.future import Future
from squall.sim.scripts.compat.guard import NotSimulatedError
from squall.sim.scripts.compat.module_facades import Facade

if TYPE_CHECKING:
    from squall.sim.scripts.compat.modules import ModuleSpace

#: what TorchScript can call of ``torch.distributed.rpc``
_CALLS = frozenset({"rpc_async", "rpc_sync", "remote"})
_ENGINE = "squall.real.rpc."


def script(obj: Any, *args: Any, _frames_up: int = 0, **kwargs: Any) -> Any:
    """``torch.jit.script``. Raises NotSimulatedError for functions that make calls."""
    compiled: Any = torch.jit.script
    try:
        return compiled(obj, *args, _frames_up=_frames_up + 1, **kwargs)
    except Exception:
        if not any(_makes_calls(function) for function in _functions_of(obj)):
            raise
        raise NotSimulatedError(
            f"{getattr(obj, '__qualname__', obj)!s} is compiled to TorchScript and makes a call of "
            "torch.distributed.rpc itself, or returns a Future: such calls are operators of "
            "PyTorch's compiled engine. Run this script with --engine torch, or make the call "
            "outside of TorchScript."
        ) from None


def _functions_of(obj: Any) -> Iterator[FunctionType]:
    found = inspect.unwrap(obj) if callable(obj) else obj
    if isinstance(found, FunctionType):
        yield found
    elif isinstance(found, torch.nn.Module):
        yield from (each for each in vars(type(found)).values() if isinstance(each, FunctionType))


def _makes_calls(function: FunctionType) -> bool:
    """Whether ``function`` names a call of this engine, or a future of it as what it returns."""
    ours: Any = Future
    if any(get_origin(each) is ours for each in function.__annotations__.values()):
        return True
    names = function.__code__.co_names
    for name in names:
        value = function.__globals__.get(name)
        if getattr(value, "__module__", "").startswith(_ENGINE):
            return True
        if isinstance(value, ModuleType) and value.__name__ == "torch.distributed.rpc":
            return not _CALLS.isdisjoint(names)
    return False


def make_jit(space: ModuleSpace) -> ModuleType:
    return Facade(space, importlib.import_module("torch.jit"), {"script": script})
