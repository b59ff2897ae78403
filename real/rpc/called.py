"""The function that a request asks for, read from its bytes: nothing of what they describe is made or run."""

from __future__ import annotations

import io
import pickle
from typing import Any

from squall.real.rpc.discard import pickled_part
from squall.real.rpc.message import Message


class _Stub:
    """Stands for an object of the message, and for whatever is made by calling it."""

    def __init__(self, name: str = "") -> None:
        self.name = name

    def __call__(self, *args: Any, **_: Any) -> Any:
        if self.name == "getattr" and len(args) == 2:
            return _Stub(str(args[1]))  # a method
        if self.name == "user_global" and len(args) == 2:
            return _Stub(str(args[1]))
        if self.name == "PythonUDF":
            return args
        return _Stub()

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass

    append = extend = add = __setstate__


class _Names(pickle.Unpickler):
    def persistent_load(self, name: str) -> Any:
        return _Stub(name.rpartition(".")[2])

    def find_class(self, module: str, name: str) -> Any:
        return _Stub(name)


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
    first = found[0] if isinstance(found, tuple) and found else None
    return first.name if isinstance(first, _Stub) else ""
