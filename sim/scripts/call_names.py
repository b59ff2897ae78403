"""Inside a process of a script: which call of the script an operation comes from, and what its tensor is called there.

Members of a group that call the same collectives in another order give other tensors to one, which size and
type need not show (sim/scripts/call_order.py).
"""

from __future__ import annotations

import linecache
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from itertools import islice
from types import CodeType, FrameType
from typing import Any

from torch import Tensor
from torch.nn.modules import module as modules

from squall.sim.scripts.call import Frame, Names
from squall.sim.world.places import frames_of, is_library, variables_of


class Registered:
    """The parameters and buffers of modules, those of one class and name by the order of their registration.
    ``counts``: how many there are of each in the process that asks; None if that is none of a script's."""

    def __init__(self, counts: Callable[[], Counter[str] | None]) -> None:
        self._counts = counts
        self._names: dict[int, tuple[weakref.ref[Any], str]] = {}
        modules.register_module_parameter_registration_hook(self._register)
        modules.register_module_buffer_registration_hook(self._register)

    def _register(self, module: Any, name: str, tensor: Any) -> None:
        counts = self._counts()
        if isinstance(tensor, Tensor) and counts is not None:
            key = id(tensor)
            ends = weakref.ref(tensor, lambda _: self._names.pop(key, None))
            about = f"{type(module).__name__}.{name}"
            counts[about] += 1
            self._names[key] = ends, f"{about} (number {counts[about]})"

    def name(self, tensor: Tensor) -> str:
        if id(tensor) in self._names:
            return self._names[id(tensor)][1]
        for registered, name in list(self._names.values()):
            if (parameter := registered()) is not None and parameter.grad is tensor:
                return f"the gradient of {name}"
        return ""


def names(frame: FrameType | None, args: Sequence[Any], registered: Registered) -> Names:
    """Of the operation that a stack of frames, the innermost first, has called with ``args``: of the first of the
    tensors among them."""
    tensor = _subject(args)
    stack: list[Frame] = []
    variables: dict[str, None] = {}
    for each in frames_of(frame):
        if not _is_library(each.f_code):
            stack.append(_call(each.f_code, each.f_lasti))
            variables |= {name: None for name, it in variables_of(each).items() if it is tensor}
    name = registered.name(tensor) if isinstance(tensor, Tensor) else ""
    return Names(tuple(reversed(stack)), tuple(variables), name)


def _subject(args: Sequence[Any]) -> Any:
    given: Any = next((each for each in args[1::-1] if isinstance(each, list | Tensor)), None)
    while isinstance(given, list):
        given = given[0] if given else None
    return given


@cache
def _is_library(code: CodeType) -> bool:
    return is_library(code.co_filename)


@cache
def _call(code: CodeType, instruction: int) -> Frame:
    """The call that is under way there."""
    begin, end, left, right = next(islice(code.co_positions(), instruction // 2, None))
    file = code.co_filename
    lines = [linecache.getline(file, n) for n in range(begin or 0, (end or begin or 0) + 1)]
    if left is not None and right is not None:  # both in bytes
        lines[-1] = lines[-1].encode()[:right].decode()
        lines[0] = lines[0].encode()[left:].decode()
    return Frame(code.co_qualname, " ".join(map(str.strip, lines)), file, begin or 0)
