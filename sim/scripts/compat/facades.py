"""Modules that stand in front of real ones: some names are replaced, the rest is the real one's."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from squall.sim.scripts.compat.modules import ModuleSpace

_MISSING = object()
_SPECIAL = ("__doc__", "__file__", "__path__", "__package__", "__spec__", "__loader__")
#: what is looked up once and kept: it does not change in the real module
_KEPT = (FunctionType, BuiltinFunctionType, type, ModuleType)


class Facade(ModuleType):
    """One process's view of a module.

    A submodule that is replaced for the process is found here too. Setting an attribute sets it
    for this process only.
    """

    def __init__(
        self,
        space: ModuleSpace,
        real: ModuleType,
        replaced: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
    ) -> None:
        """``name``: under which the process knows it, if not the real one."""
        super().__init__(name or real.__name__)
        own = self.__dict__
        for special in _SPECIAL:
            value = getattr(real, special, _MISSING)
            if value is not _MISSING:
                own[special] = value
        if name is not None:
            # It need not be a package to have submodules.
            own["__path__"] = getattr(real, "__path__", [])
            own["__package__"] = name
        own["_facade_space"] = space
        own["_facade_real"] = real
        own["_facade_keeps"] = True
        if replaced:
            own.update(replaced)

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        real = own["_facade_real"]
        submodule = own["_facade_space"].replaced_submodule(f"{own['__name__']}.{name}")
        if submodule is not None:
            return submodule
        try:
            value = getattr(real, name)
        except AttributeError:
            if name == "__all__":
                return [public for public in dir(self) if not public.startswith("_")]
            raise
        if own["_facade_keeps"] and isinstance(value, _KEPT):
            own[name] = value
        return value

    def __dir__(self) -> list[str]:
        names = dict.fromkeys([*dir(self.__dict__["_facade_real"]), *self.__dict__])
        return sorted(name for name in names if not name.startswith("_facade_"))

    def __repr__(self) -> str:
        return f"<module {self.__name__!r}>"


class WriteThroughFacade(Facade):
    """A facade of a module whose other attributes are set on the real one.

    For ``sys``: what a process may set there is swapped in and out with the process.
    """

    def __init__(
        self,
        space: ModuleSpace,
        real: ModuleType,
        replaced: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(space, real, replaced, name=name)
        # What is set must be read, and nothing kept from before stand in its way.
        self.__dict__["_facade_keeps"] = False

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__:
            super().__setattr__(name, value)
        else:
            setattr(self.__dict__["_facade_real"], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.__dict__["_facade_real"], name)


class builtin:  # noqa: N801 - reads as what it makes
    """A Python function that, like one written in C, does not become a method in a class.

    Pickled by reference, as the module-level name it must have.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __reduce__(self) -> str:
        return self._function.__qualname__

    def __repr__(self) -> str:
        return f"<built-in function {self._function.__name__}>"
