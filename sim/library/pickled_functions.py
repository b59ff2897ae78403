"""Takes a function, and what it needs, from its caller into simulated processes.

    data = carried((function, args))                                      for the caller
    function, args = opened(data, importlib.import_module, globals())     in a process

What a process can import travels as its name, and is the process's own there: that is how code that
was written for ``torch.distributed.rpc`` comes to use the simulated one. What has no such name
travels as itself: functions and classes of ``__main__`` (a cell of a notebook, a script that
is run) with those globals that their code names, and whatever is nested in a function, with its
closure. All else is pickled, so ranks share nothing with each other or with their caller.

A variable that cannot be pickled is shared, in this process alone; an engine whose workers are other
processes cannot have it (:class:`NotCarriedError`).
"""

from __future__ import annotations

import dataclasses
import enum
import io
import marshal
import pickle
import sys
import threading
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

MAIN = "__main__"
#: modules in which things stand that do not say so: compiled functions, methods of a hidden object
_HOMES = (
    "torch.distributed.autograd",
    "torch.distributed.rpc",
    "random",
    "numpy.random",
    "secrets",
    "time",
    "os",
)
#: what a class gets anew where it is made again
_MADE_ANEW = ("__dict__", "__weakref__", "__abstractmethods__", "_abc_impl")
#: one is made anew in each process, as its module has it there
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
#: what dataclasses tell apart by identity
_SENTINELS = {
    id(value): name
    for name, value in vars(dataclasses).items()
    if type(value).__name__ in ("_MISSING_TYPE", "_FIELD_BASE", "_KW_ONLY_TYPE")
}
#: objects of this process that are shared, in the order in which they were found
_shared: list[Any] = []
#: ids of what is being tried at the moment
_trying: set[int] = set()

ImportModule = Callable[[str], ModuleType]


class NotCarriedError(RuntimeError):
    """A function needs an object that cannot be pickled, and so cannot come from another process.

    Make it in the function itself, or at the top of a module, or give what can be pickled.
    """


def carried(value: object) -> bytes:
    """``value`` as bytes, for :func:`opened`. Raises what pickling raises."""
    file = io.BytesIO()
    _Carrier(file, pickle.HIGHEST_PROTOCOL).dump(value)
    return file.getvalue()


def opened(data: bytes, import_module: ImportModule, main: dict[str, Any]) -> Any:
    """The value, made for a process that imports with ``import_module`` and whose main module has
    the dictionary ``main``.

    Raises NotCarriedError for an object of another process, and what unpickling raises.
    """
    return _Opener(io.BytesIO(data), import_module, main).load()


def named(module: str, qualname: str, import_module: ImportModule) -> Any:
    """What stands there. Raises ImportError or AttributeError."""
    found: Any = import_module(module)
    for name in qualname.split("."):
        found = getattr(found, name)
    return found


def has_a_name(obj: Any) -> bool:
    """Whether another process can import it: by the name of its module, and its own."""
    if obj.__module__ == MAIN or obj.__module__ not in sys.modules:
        return False
    try:
        return named(obj.__module__, obj.__qualname__, sys.modules.__getitem__) is obj
    except AttributeError:  # "<locals>" is part of the name, or a decorator has replaced it
        return False


# -- for the caller ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _Namespace:
    """Stands for the globals of a module; None: of none that can be imported."""

    module: str | None


@dataclass(frozen=True)
class _Shared:
    """Stands for an object that is not copied: its number, and what it is."""

    number: int
    what: str


class _Carrier(pickle.Pickler):
    def persistent_id(self, obj: Any) -> tuple[str, Any] | None:
        if isinstance(obj, ModuleType):
            return "module", obj.__name__
        if isinstance(obj, _Namespace):
            return "namespace", obj.module
        if isinstance(obj, _Shared):
            return "shared", (obj.number, obj.what)
        return None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, FunctionType) and not has_a_name(obj):
            return _reduced_function(obj)
        if isinstance(obj, type) and not has_a_name(obj):
            if obj.__module__ == "builtins":
                return _of_types(obj)
            return _reduced_class(obj)
        if isinstance(obj, CellType):
            return _make_cell, ()  # its contents are set with the state of a function that has it
        if isinstance(obj, BuiltinFunctionType | MethodType):
            return _at_home(obj)
        if isinstance(obj, CodeType):
            return marshal.loads, (marshal.dumps(obj),)
        if isinstance(obj, _LOCKS):
            return _called, (threading, "Lock" if isinstance(obj, _LOCKS[0]) else "RLock")
        if isinstance(obj, staticmethod | classmethod):
            return type(obj), (obj.__func__,)
        if isinstance(obj, property):
            return property, (obj.fget, obj.fset, obj.fdel, obj.__doc__)
        if isinstance(obj, MappingProxyType):
            return MappingProxyType, (dict(obj),)
        if id(obj) in _SENTINELS:
            return getattr, (dataclasses, _SENTINELS[id(obj)])
        return NotImplemented


def _at_home(function: Any) -> Any:
    name = function.__name__
    for home in _HOMES:
        module = sys.modules.get(home)
        # Two looks at a method give two objects, which are equal.
        if module is not None and getattr(module, name, None) == function:
            return getattr, (module, name)
    return NotImplemented


def _of_types(cls: type) -> Any:
    """A class of the interpreter's own, which ``types`` has a name for."""
    for name, value in vars(types).items():
        if value is cls:
            return getattr, (types, name)
    return NotImplemented


def _reduced_function(function: FunctionType) -> Any:
    code = function.__code__
    every = function.__globals__
    module: str | None = str(every.get("__name__", MAIN))
    if module != MAIN and vars(sys.modules.get(str(module), types)) is not every:
        module = None  # made by exec, as methods of named tuples are
    cells = function.__closure__ or ()
    contents = []
    for cell in cells:
        try:
            contents.append((cell, or_shared(cell.cell_contents)))
        except ValueError:  # the variable has no value yet
            continue
    used: dict[str, Any] = {}
    if module in (MAIN, None):
        used = {name: or_shared(every[name]) for name in _names(code) if name in every}
    namespace: Any = {} if module is None else _Namespace(module)
    made = (marshal.dumps(code), namespace, function.__name__, cells)
    attributes = {
        "__qualname__": function.__qualname__,
        "__module__": function.__module__,
        "__defaults__": _each_or_shared(function.__defaults__),
        "__kwdefaults__": function.__kwdefaults__,
        "__doc__": function.__doc__,
        **{name: or_shared(value) for name, value in vars(function).items()},
    }
    state = (attributes, contents, namespace, used)
    return _make_function, made, state, None, None, _finish_function


def _reduced_class(cls: type) -> Any:
    if issubclass(cls, enum.Enum):
        return _reduced_enumeration(cls)
    attributes = {
        name: or_shared(value)
        for name, value in vars(cls).items()
        if name not in _MADE_ANEW
        and not isinstance(value, MemberDescriptorType | GetSetDescriptorType)
    }
    first = {name: vars(cls)[name] for name in ("__slots__", "__module__") if name in vars(cls)}
    made = (type(cls), cls.__name__, cls.__bases__, first)
    return _make_class, made, attributes, None, None, _finish_class


def _reduced_enumeration(cls: type[enum.Enum]) -> Any:
    members = [(name, member.value) for name, member in cls.__members__.items()]
    attributes: dict[str, Any] = {
        name: value
        for name, value in vars(cls).items()
        if isinstance(value, FunctionType | staticmethod | classmethod | property)
        and name not in vars(enum.Enum)
        and not name.startswith("_generate_")
    }
    attributes |= {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
    made = (cls.__bases__, cls.__name__, members)
    return _make_enumeration, made, attributes, None, None, _finish_class


def _names(code: CodeType) -> Iterator[str]:
    """The names that code uses, that nested in it included."""
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _names(const)


def _each_or_shared(values: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(or_shared(value) for value in values)


def or_shared(value: Any) -> Any:
    """The value, or what stands for it in :func:`carried` if it cannot be pickled."""
    if id(value) in _trying or isinstance(value, FunctionType | ModuleType):
        return value
    _trying.add(id(value))
    try:
        carried(value)
    except Exception:  # a user's __reduce__ raises anything
        number = next((n for n, other in enumerate(_shared) if other is value), len(_shared))
        if number == len(_shared):
            _shared.append(value)
        return _Shared(number, f"{type(value).__module__}.{type(value).__qualname__}")
    finally:
        _trying.discard(id(value))
    return value


# -- in a process -----------------------------------------------------------------------------


class _Opener(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, import_module: ImportModule, main: dict[str, Any]) -> None:
        super().__init__(file)
        self._import_module = import_module
        self._main = main

    def find_class(self, module: str, name: str) -> Any:
        return named(module, name, self._import_module)

    def persistent_load(self, what: tuple[str, Any]) -> Any:
        kind, name = what
        if kind == "module":
            return self._import_module(name)
        if kind == "namespace":
            return self._main if name == MAIN else vars(self._import_module(name))
        number, what = name
        if number >= len(_shared):
            raise NotCarriedError(
                f"the function uses a {what} of the process that has called squall, which cannot be "
                "pickled and so is not here: make it in the function, or at the top of a module"
            )
        return _shared[number]


def _make_cell() -> CellType:
    return CellType()


def _called(module: ModuleType, name: str) -> Any:
    return getattr(module, name)()


def _make_function(
    code: bytes, namespace: dict[str, Any], name: str, cells: tuple[CellType, ...]
) -> FunctionType:
    return FunctionType(marshal.loads(code), namespace, name, None, cells)


def _finish_function(function: FunctionType, state: Any) -> None:
    attributes, contents, namespace, used = state
    for name, value in used.items():
        namespace.setdefault(name, value)
    for cell, value in contents:
        cell.cell_contents = value
    for name, value in attributes.items():
        setattr(function, name, value)


def _make_class(meta: type, name: str, bases: tuple[type, ...], attributes: dict[str, Any]) -> type:
    made: type = meta(name, bases, dict(attributes))
    return made


def _make_enumeration(
    bases: tuple[type, ...], name: str, members: list[tuple[str, Any]]
) -> type[enum.Enum]:
    *mixins, base = bases
    make: Any = base
    made: type[enum.Enum] = make(name, members, type=mixins[0] if mixins else None)
    return made


def _finish_class(cls: type, attributes: dict[str, Any]) -> None:
    for name, value in attributes.items():
        if name != "__slots__":
            setattr(cls, name, value)
