"""Operators that processes register with torch, and what they are decomposed into.

An interpreter has one register of them, and a module that defines operators is executed by each process
that imports it. The first definition stands for all, until the run is over.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch._decomp
from torch._ops import OpOverloadPacket
from torch.library import Library

from squall.sim.scripts.compat.process import current_process_or_none

_Key = tuple[object, ...]
#: the methods of a library that register something under a name, which is the first argument
_METHODS = ("define", "impl", "fallback", "_register_fake", "_register_torch_dispatch_rule")


class _Registered:
    """What the processes of a run have registered: by whom, and in which library."""

    def __init__(self) -> None:
        self._by: dict[_Key, tuple[Any, Library]] = {}
        self._libraries: list[Library] = []
        #: whose decomposition of an operator is in a table
        self._decomposed: dict[tuple[int, Any], tuple[Any, dict[Any, Any]]] = {}

    def _is_another_s(self, key: _Key, library: Library) -> bool:
        """Whether another process has registered that; if none has, the one that runs does now."""
        process = current_process_or_none()
        if process is None:
            return False
        by, its = self._by.get(key, (process, library))
        if by is not process and its.m is not None:
            return True
        self._by[key] = process, library
        return False

    def new(self, made: Callable[..., None]) -> Callable[..., None]:
        """``Library.__init__``. Only one library may define the namespace."""

        @functools.wraps(made)
        def new(library: Library, ns: str, kind: str, *args: Any, **kwargs: Any) -> None:
            library.m = None
            if kind == "DEF" and self._is_another_s((ns, kind), library):
                kind = "FRAGMENT"
            made(library, ns, kind, *args, **kwargs)
            if current_process_or_none() is not None:
                self._libraries.append(library)

        return new

    def once(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """A method that registers under a name."""

        @functools.wraps(method)
        def call(library: Library, name: Any, *args: Any, **kwargs: Any) -> Any:
            said = [each for each in args if isinstance(each, str | type)]
            key = (method.__name__, library.ns, str(name), *said, kwargs.get("dispatch_key"))
            if self._is_another_s(key, library):
                return str(name).partition("(")[0]
            if "_stacklevel" in kwargs:  # in which module the caller is
                kwargs["_stacklevel"] += 1
            return method(library, name, *args, **kwargs)

        return call

    def decomposed(self, add: Callable[..., None]) -> Callable[..., None]:
        """What adds a decomposition to a table, and refuses a second one of the same operator."""

        @functools.wraps(add)
        def once(table: dict[Any, Any], operator: Any, function: Any) -> None:
            process = current_process_or_none()
            if process is None:
                return add(table, operator, function)
            overloads = [operator]
            if isinstance(operator, OpOverloadPacket):
                overloads = [getattr(operator, kind) for kind in operator.overloads()]
            keys = [(id(table), each) for each in overloads]
            if any(self._decomposed.get(key, (process, table))[0] is not process for key in keys):
                return None
            add(table, operator, function)
            self._decomposed.update((key, (process, table)) for key in keys if key[1] in table)
            return None

        return once

    def forget(self) -> None:
        for (_, operator), (_, table) in self._decomposed.items():
            table.pop(operator, None)
        for library in self._libraries:
            if library.m is not None:
                library._destroy()


@contextlib.contextmanager
def shared_by_processes() -> Iterator[None]:
    """While this is open, what a process registers that another one has is left out."""
    registered = _Registered()
    add = torch._decomp._add_op_to_registry
    torch._decomp._add_op_to_registry = registered.decomposed(add)
    before = {name: getattr(Library, name) for name in ("__init__", *_METHODS)}
    for name, method in before.items():
        setattr(
            Library, name, registered.new(method) if name == "__init__" else registered.once(method)
        )
    try:
        yield
    finally:
        for name, method in before.items():
            setattr(Library, name, method)
        torch._decomp._add_op_to_registry = add
        registered.forget()
