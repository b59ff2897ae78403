"""Modules that stand in front of real ones: some names are replaced, the rest is the real one's."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType, NoneType
from typing import TYPE_CHECKING, Any

from squall.real.runtime import current_task_or_none
from squall.sim.scripts.compat.signatures import describe

if TYPE_CHECKING:
    from squall.sim.scripts.compat.modules import ModuleSpace

_MISSING = object()
_SPECIAL = ("__doc__", "__file__", "__path__", "__package__", "__spec__", "__loader__")
#: what is looked up once and kept: it does not change in the real module
_KEPT = (FunctionType, BuiltinFunctionType, type, ModuleType)
_DEFINED = (FunctionType, BuiltinFunctionType, type)
_CONSTANTS = (NoneType, bool, int, float, complex, str, bytes, tuple, frozenset)
#: modules of this engine whose functions and classes are described as those of the stock module
_described: set[str] = set()


class Facade(ModuleType):
    """One process's view of a module.

    A module that is replaced for the process is found here too, as a submodule or under whatever name
    the real one has it. Setting an attribute sets it for this process only.

    Under another name than that of ``real`` it is a module of this engine in the place of the stock
    module of that name, and shows what that one shows: what else a script finds there, such as
    modules, types and constants, is the stock module's.
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
        own["_facade_replaced"] = replaced or {}
        own["_facade_stock"] = stock = real if name is None else _stock(name)
        if replaced:
            own.update(replaced)
            describe(replaced, stock)
        if stock is not real and real.__name__ not in _described:
            _described.add(real.__name__)
            describe(vars(real), stock)

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
            value = getattr(own["_facade_stock"], name, _MISSING)
            if name.startswith("_") or not _is_plain(value):
                raise
        value = self._of_process(value)
        if own["_facade_keeps"] and issubclass(type(value), _KEPT):
            own[name] = value
        return value

    def _of_process(self, value: Any) -> Any:
        """What the process has in place of a module, or of what a replaced library module defines."""
        space: ModuleSpace = self.__dict__["_facade_space"]
        # Not isinstance, which asks a deprecated object for its __class__.
        kind = type(value)
        if issubclass(kind, ModuleType):
            return space.replaced_submodule(value.__name__) or value
        if (
            issubclass(kind, _DEFINED)
            and self.__dict__["_facade_stock"] is not self.__dict__["_facade_real"]
        ):
            home = space.replaced_submodule(value.__module__ or "")
            return value if home is None else getattr(home, value.__name__, value)
        return value

    def __dir__(self) -> list[str]:
        own = self.__dict__
        real, stock, replaced = own["_facade_real"], own["_facade_stock"], own["_facade_replaced"]
        if stock is real:
            names = set(dir(stock))
        else:
            names = {name for name in dir(stock) if self._shows(name)}
            names.update(special for special in _SPECIAL if special in own)
        names.update(own.get("_facade_set", ()))
        # What the process has set: no more of ours than the stock module has.
        ours = {*replaced, *vars(real)} if stock is not real else set(replaced)
        names.update(name for name in own if name not in ours and not name.startswith("_facade_"))
        return sorted(names)

    def _shows(self, name: str) -> bool:
        """Whether this module has what the stock module has under that name; loads none."""
        own = self.__dict__
        if name in own or hasattr(own["_facade_real"], name) or hasattr(type(self), name):
            return True
        return not name.startswith("_") and _is_plain(getattr(own["_facade_stock"], name, _MISSING))

    def __reduce__(self) -> tuple[Any, ...]:
        # Alone cloudpickle, which comes here from its own code, pickles modules: by name.
        if "cloudpickle" in sys._getframe(1).f_globals.get("__name__", ""):
            return _module_named, (self.__name__,)
        raise TypeError("cannot pickle 'module' object")

    def __repr__(self) -> str:
        return f"<module {self.__name__!r}>"


def _module_named(name: str) -> ModuleType:
    """As the process has it that unpickles."""
    task = current_task_or_none()
    space: Any = getattr(task and task.worker, "modules", None)
    return importlib.import_module(name) if space is None else space.load(name)


def _stock(name: str) -> ModuleType:
    return sys.modules.get(name) or importlib.import_module(name)


def _is_plain(value: Any) -> bool:
    """Whether it does the same beside any engine: a module (the process's), what the standard library
    or ``typing`` defines, or a constant."""
    kind = type(value)
    if issubclass(kind, (ModuleType, *_CONSTANTS)):
        return True
    if issubclass(kind, _DEFINED):
        home = (value.__module__ or "").partition(".")[0]
        return home in sys.stdlib_module_names or home == "typing_extensions"
    return kind.__module__ == "typing"


class WriteThroughFacade(Facade):
    """A facade of a module whose other attributes are set on the real one.

    For ``sys``: what a process may set there is swapped in and out with the process.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # What is set must be read, and nothing kept from before stand in its way.
        self.__dict__["_facade_keeps"] = False
        self.__dict__["_facade_set"] = set()

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__:
            super().__setattr__(name, value)
        else:
            setattr(self.__dict__["_facade_real"], name, value)
            self.__dict__["_facade_set"].add(name)

    def __delattr__(self, name: str) -> None:
        delattr(self.__dict__["_facade_real"], name)
        self.__dict__["_facade_set"].discard(name)
