"""Short names for what of squall itself travels in messages.

Pickle writes a function or a class as the full name of its module. For squall's own that would
make the size of a message, and with it the digest of a run, depend on where in squall a thing
lives; a label that its module chooses once does not.
"""

from __future__ import annotations

import importlib
from functools import cache
from types import FunctionType
from typing import Any

_LABELS: dict[str, str] = {}
_MODULES: dict[str, str] = {}


def label_module(module: str, label: str) -> None:
    """What ``module`` defines travels as ``label`` and its name. For the module itself to call.

    Raises ValueError if another module has that label.
    """
    if _MODULES.setdefault(label, module) != module:
        raise ValueError(f"the label {label!r} is that of {_MODULES[label]}")
    _LABELS[module] = label


def wire_name(obj: Any) -> str | None:
    """The name under which ``obj`` travels; None for what pickle names itself, or refuses because
    it is inside a function."""
    kind = type(obj)
    if kind is FunctionType or kind is type:
        label = _LABELS.get(obj.__module__)
        if label is not None and "<locals>" not in obj.__qualname__:
            return f"{label}.{obj.__qualname__}"
    return None


@cache
def find_by_wire_name(name: str) -> Any:
    """What travels under ``name``. Raises KeyError or AttributeError if there is none."""
    label, _, qualname = name.partition(".")
    found: Any = importlib.import_module(_MODULES[label])
    for part in qualname.split("."):
        found = getattr(found, part)
    return found
