"""What replaces a function or class says of itself what the real one says: its signature, its
documentation and its name.

All of it is taken from the real one at run time. ``__module__`` stays, since pickle goes by it, and
``__wrapped__`` is not set: :func:`inspect.unwrap` would lead to the real function. Imports no torch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import FunctionType, MethodType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

_HEAP_TYPE = 1 << 9
_ENGINE = "squall.real."
#: modules of squall, and the one that processes have under another name
_OWN = ("squall.", "multiprocessing._squall")
_SELF = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
_BY_CLASS = (staticmethod, classmethod)


class SignatureOf(inspect.Signature):
    """The signature of ``real``, found out when it is asked for: few scripts do, and those of the
    functions of ``os`` alone take 20 ms. ``bound``: of a method whose first argument ``real`` lacks."""

    __slots__ = ("_bound", "_real")

    def __init__(self, real: Callable[..., Any], bound: bool) -> None:
        self._real = real
        self._bound = bound

    def __getattr__(self, name: str) -> Any:
        # The slots of the base class are empty until then.
        if name not in ("_parameters", "_return_annotation"):
            raise AttributeError(name)
        found = inspect.signature(self._real)
        parameters = [_SELF] if self._bound else []
        super().__init__(
            [*parameters, *found.parameters.values()], return_annotation=found.return_annotation
        )
        return object.__getattribute__(self, name)

    def plain(self) -> inspect.Signature:
        return inspect.Signature(
            list(self.parameters.values()), return_annotation=self.return_annotation
        )

    def replace(self, **changes: Any) -> Any:
        return self.plain().replace(**changes)

    __replace__ = replace

    def __reduce__(self) -> Any:
        return self.plain().__reduce__()

    def __repr__(self) -> str:
        return repr(self.plain())


#: by what replaces: what it was described as
_described: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
#: by the real one and whether it is to be bound
_signatures: dict[tuple[Any, bool], SignatureOf] = {}


def describe(replaced: Mapping[str, Any], stock: ModuleType) -> None:
    """Let public functions and classes say what those of the same name in ``stock`` say."""
    real = vars(stock)
    for name, ours in replaced.items():
        if name in real and not name.startswith("_") and callable(ours):
            describe_as(ours, real[name])


def describe_as(ours: Any, real: Any) -> None:
    """Let ``ours`` say what ``real`` says; for a class its public members, too."""
    if ours is real or not callable(real):
        return
    if isinstance(ours, MethodType):
        if isinstance(real, MethodType):
            _describe_function(ours.__func__, real.__func__)
        else:
            _describe_function(ours.__func__, real, bound=True)
    elif not isinstance(ours, type):
        _describe_function(ours, real)
    elif isinstance(real, type):
        _describe_class(ours, real)


def _is_new(ours: Any, real: Any) -> bool:
    """Whether ``ours`` is to be described as ``real``. A class that stands for several is the most derived,
    a function the first with a signature."""
    earlier = _described.get(ours)
    if earlier is real:
        return False
    if earlier is not None:
        if isinstance(real, type) and isinstance(earlier, type):
            if not issubclass(real, earlier):
                return False
        elif _has_signature(earlier) or not _has_signature(real):
            return False
    _described[ours] = real
    return True


def _describe_function(ours: Any, real: Any, *, bound: bool = False) -> None:
    if not _is_own(ours) or not _is_new(ours, real):
        return
    if _has_signature(real):
        key = (real, bound)
        if key not in _signatures:
            _signatures[key] = SignatureOf(real, bound)
        ours.__signature__ = _signatures[key]
    ours.__doc__ = getattr(real, "__doc__", None)
    name = getattr(real, "__name__", None)
    if isinstance(name, str) and not ours.__module__.startswith(_ENGINE):
        ours.__name__ = name


def _describe_class(ours: type, real: type) -> None:
    if issubclass(ours, BaseException) or not ours.__flags__ & _HEAP_TYPE:
        return
    if not _is_new(ours, real):
        return
    ours.__doc__ = real.__doc__
    if not ours.__module__.startswith(_ENGINE):
        ours.__name__ = real.__name__
    # A signature of the class itself would be that of the script's subclasses, too.
    init: Any = _member(ours, "__init__")
    real_init: Any = _member(real, "__init__")
    if isinstance(real_init, FunctionType):
        _describe_function(init, real_init)
    elif _has_signature(real) and _is_own(init):
        _describe_function(init, real, bound=True)
    for name in dir(real):
        if not name.startswith("_"):
            _describe_member(_member(ours, name), _member(real, name))


def _describe_member(ours: Any, real: Any) -> None:
    if ours is real or ours is None or real is None:
        return
    if isinstance(ours, property):
        if ours.fget is not None and _is_own(ours.fget):
            ours.__doc__ = real.__doc__
        return
    kind = type(ours) if isinstance(ours, _BY_CLASS) else None
    if kind is not (type(real) if isinstance(real, _BY_CLASS) else None):
        return
    if kind is not None:
        ours, real = ours.__func__, real.__func__
    if callable(real) and not isinstance(ours, type):
        _describe_function(ours, real)


def _member(of: type, name: str) -> Any:
    """As the class has it, not bound."""
    return next((vars(base)[name] for base in of.__mro__ if name in vars(base)), None)


def _is_own(function: Any) -> bool:
    """Whether it is written in Python, here."""
    if isinstance(function, FunctionType):
        return str(function.__globals__.get("__name__")).startswith(_OWN)
    return isinstance(function, builtin)


def _has_signature(real: Any) -> bool:
    if isinstance(real, FunctionType | MethodType):
        return True
    if getattr(real, "__text_signature__", None) is not None:
        return True
    return isinstance(real, type) and isinstance(_member(real, "__init__"), FunctionType)


class builtin:  # noqa: N801 - reads as what it makes
    """A Python function that, like one written in C, does not become a method in a class.

    Pickled by reference, as the module-level name it must have.
    """

    __name__: str

    def __init__(self, function: Callable[..., Any]) -> None:
        for name in ("__module__", "__name__", "__qualname__", "__doc__"):
            setattr(self, name, getattr(function, name))
        self.__signature__ = SignatureOf(function, bound=False)
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __reduce__(self) -> str:
        return self._function.__qualname__

    def __repr__(self) -> str:
        return f"<built-in function {self.__name__}>"
