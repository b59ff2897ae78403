"""The function that a request asks for, read from its bytes: nothing of what they describe is made or run."""

from __future__ import annotations

import io
import pickle
from typing import Any

from squall.real.rpc.discard import Anything, AnyType, pickled_part
from squall.real.rpc.message import Message

#: functions that call a method of the object that a reference refers to, named by the second argument
_INVOKERS = ("local_invoke", "local_invoke_async_execution")


class _Named(AnyType):
    """So that a call gives what is of interest of it: a function by its name, or a call with its arguments."""

    def __call__(cls, *args: object, **kwargs: object) -> Any:  # noqa: N805 - of a class of classes
        if cls.__name__ in ("getattr", "user_global") and len(args) == 2:
            return _named(str(args[1]))
        return args if cls.__name__ == "PythonUDF" else cls


class _Something(Anything, metaclass=_Named):
    """Stands for an object of the message, whose name is its own."""

    def __new__(cls, *args: object, **kwargs: object) -> Any:
        return cls(*args, **kwargs)


def _named(name: str) -> Any:
    return _Named(name, (_Something,), {})


class _Names(pickle.Unpickler):
    def persistent_load(self, name: str) -> Any:
        return _named(name.rpartition(".")[2])

    def find_class(self, module: str, name: str) -> Any:
        return _named(name)


def function_of(message: Message) -> str:
    """Its name, as in ``Server.get``; "" where the request asks for none."""
    return function_in(pickled_part(message))


def function_in(payload: bytes) -> str:
    """The same of what a call is pickled to, with whatever stands before it."""
    start = payload.find(pickle.PROTO)
    if start < 0:
        return ""
    try:
        found = _Names(io.BytesIO(payload[start:])).load()
    except Exception:  # of a pickler of the user's own, or of another format
        return ""
    if not (isinstance(found, tuple) and len(found) == 3 and isinstance(found[0], _Named)):
        return ""
    return name_of_call(found[0].__name__, found[1])


def name_of_call(function: str, args: Any) -> str:
    """What a call with these arguments is named by: a method, where it is one of the object of a reference."""
    is_method = function.lstrip("_") in _INVOKERS and isinstance(args, tuple) and len(args) > 1
    return str(args[1]) if is_method else function
