"""What a rank returns, on its way from a simulated process to whoever called ``squall.run``.

It is pickled, as between real processes: a rank and its caller share no object. Functions and classes
of a simulated process's own modules arrive as the caller's.
"""

from __future__ import annotations

import importlib
import io
import pickle
import sys
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from squall.real.process import ModuleSpace


@dataclass(frozen=True)
class NotPickled:
    """Stands for a result that cannot leave its rank: its ``text``, and ``why``."""

    text: str
    why: str

    def __repr__(self) -> str:
        return f"<not pickled: {self.text} ({self.why})>"


def packed(value: object, modules: ModuleSpace | None) -> bytes:
    """``value`` as bytes. ``modules``: those of the simulated process; None in a real one."""
    file = io.BytesIO()
    try:
        _Pickler(file, modules).dump(value)
    except Exception as error:  # whatever a user's __reduce__ raises
        return packed(NotPickled(repr(value), f"{type(error).__name__}: {error}"), None)
    return file.getvalue()


def unpacked(data: bytes) -> Any:
    """The value. Gives :class:`NotPickled` for what cannot be read here."""
    try:
        return pickle.loads(data)
    except Exception as error:  # a class may be gone from its module, or do anything as it is made
        return NotPickled("a result", f"{type(error).__name__}: {error}")


def found(module: str, qualname: str) -> Any:
    """The function or class of that name here. Raises ImportError or AttributeError."""
    place = sys.modules.get(module) or importlib.import_module(module)
    value: Any = place
    for name in qualname.split("."):
        value = getattr(value, name)
    return value


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, modules: ModuleSpace | None) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._modules = modules

    def reducer_override(self, obj: Any) -> Any:
        modules = self._modules
        if not isinstance(obj, FunctionType | type):
            return NotImplemented
        module = getattr(obj, "__module__", None)
        if modules is None:
            # What came from the caller's main module is not in that of a process of its own.
            if module == "__main__" and "<locals>" not in obj.__qualname__:
                return found, (module, obj.__qualname__)
            return NotImplemented
        if isinstance(module, str) and modules.owns(module) and "<locals>" not in obj.__qualname__:
            return found, (module, obj.__qualname__)
        return NotImplemented
