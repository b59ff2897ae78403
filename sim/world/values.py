"""Values for people, shortened. Of objects only the type is shown: their own texts would run the user's code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import BuiltinFunctionType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from squall.sim.world.places import is_library

#: characters of a value, elements of a container, variables of a function that are shown
_LONG, _MANY, _VARIABLES = 60, 6, 8
#: characters of an error
_ERROR = 160
#: elements of a tensor that are shown, or none is
_FEW = 4
#: levels of containers within each other that are shown
_DEEP = 3
_PLAIN = (int, float, complex, bool, str, bytes, type(None))
#: functions of the user's, from the innermost, whose strings are noted
_NEAR = 2
_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType)


def shown(value: Any, depth: int = 0) -> str:
    """A value in a few characters."""
    return _cut(_shown(value, depth))


def _shown(value: Any, depth: int) -> str:
    kind = type(value)
    if kind in _PLAIN:
        return repr(value)
    if isinstance(value, torch.Tensor):
        return _tensor(value)
    if depth < _DEEP and kind in (list, tuple, set, frozenset):
        inner = [shown(each, depth + 1) for each in list(value)[:_MANY]]
        inner += ["..."] if len(value) > _MANY else []
        if kind is tuple:
            return f"({', '.join(inner)}{',' if len(inner) == 1 else ''})"
        return f"[{', '.join(inner)}]" if kind is list else f"{{{', '.join(inner)}}}"
    if depth < _DEEP and kind is dict:
        pairs = [f"{shown(k, depth + 1)}: {shown(v, depth + 1)}" for k, v in value.items()]
        return f"{{{', '.join([*pairs[:_MANY], *(['...'] if len(pairs) > _MANY else [])])}}}"
    if isinstance(value, (*_FUNCTIONS, type)):
        return name_of(value)
    return f"<{kind.__name__}>"


def _tensor(value: torch.Tensor) -> str:
    if value.numel() == 1 and value.device.type == "cpu" and not value.is_sparse:
        number = value.detach().item()
        return f"tensor({number:.6g})" if isinstance(number, float) else f"tensor({number})"
    if value.dim() == 1 and value.numel() <= _FEW and value.device.type == "cpu":
        inner = ", ".join(
            f"{each:.6g}" if isinstance(each, float) else str(each)
            for each in value.detach().tolist()
        )
        return f"tensor([{inner}])"
    return f"<tensor {'x'.join(map(str, value.shape))}>"


def in_a_line(error: BaseException) -> str:
    """An error as the last line of its traceback has it, shortened."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= _ERROR else f"{text[: _ERROR - 3]}..."


def has_graph(value: Any, depth: int = 0) -> bool:
    """Whether a tensor in it requires a gradient."""
    if isinstance(value, torch.Tensor):
        return value.requires_grad
    if depth < _DEEP and isinstance(value, dict):
        value = list(value.values())
    if depth < _DEEP and isinstance(value, list | tuple):
        return any(has_graph(each, depth + 1) for each in value)
    return False


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONG else f"{text[: _LONG - 3]}..."


def name_of(function: Any) -> str:
    """What a function is called where it was written."""
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    return (
        name.rpartition("<locals>.")[2] if isinstance(name, str) else f"<{type(function).__name__}>"
    )


def arguments(args: Any, kwargs: Any) -> str:
    """The arguments of a call, without its parentheses."""
    given = [shown(each) for each in args] if isinstance(args, Sequence) else []
    if isinstance(kwargs, Mapping):
        given += [f"{name}={shown(value)}" for name, value in kwargs.items()]
    return _cut(", ".join(given))


def variables(frame: FrameType) -> dict[str, str]:
    """The variables of a function that have a value worth showing."""
    found = {
        name: shown(value)
        for name, value in frame.f_locals.items()
        if name.isidentifier()
        and not name.startswith("_")
        and not isinstance(value, (ModuleType, type, *_FUNCTIONS))
        and frame.f_globals.get(name) is not value
    }
    return dict(list(found.items())[:_VARIABLES])


def words_near(frame: FrameType | None) -> dict[str, str]:
    """The strings in variables of the user's functions that a stack goes through last, the innermost first."""
    found: dict[str, str] = {}
    near = 0
    while frame is not None and near < _NEAR:
        if not is_library(frame.f_code.co_filename):
            near += 1
            if frame.f_code.co_name != "<module>":
                words = {k: v for k, v in frame.f_locals.items() if type(v) is str}
                found = {**words, **found}
        frame = frame.f_back
    return found
