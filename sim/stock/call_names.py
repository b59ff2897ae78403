"""Inside a process of a script on the engine ``torch``: which call of the script an operation comes from, and what its
tensor is called there.

Members of a group that call the same collectives in another order give other tensors to one, which size and
type need not show (sim/stock/call_order.py).
"""

from __future__ import annotations

import linecache
import weakref
from collections import Counter
from functools import cache
from itertools import islice
from types import CodeType, FrameType
from typing import Any

from torch import Tensor
from torch.nn.modules import module as modules

from squall.sim.stock.call import Frame, Names
from squall.sim.world.places import frames_of, is_library


class Registered:
    """The parameters and buffers of modules, those of one class and name by the order of their registration."""

    def __init__(self) -> None:
        self._names: dict[int, tuple[weakref.ref[Any], str]] = {}
        self._counts: Counter[str] = Counter()
        modules.register_module_parameter_registration_hook(self._register)
        modules.register_module_buffer_registration_hook(self._register)

    def _register(self, module: Any, name: str, tensor: Any) -> None:
        if isinstance(tensor, Tensor):
            key = id(tensor)
            ends = weakref.ref(tensor, lambda _: self._names.pop(key, None))
            about = f"{type(module).__name__}.{name}"
            self._counts[about] += 1
            self._names[key] = ends, f"{about} (number {self._counts[about]})"

    def name(self, tensor: Tensor) -> str:
        if id(tensor) in self._names:
            return self._names[id(tensor)][1]
        for registered, name in list(self._names.values()):
            if (parameter := registered()) is not None and parameter.grad is tensor:
                return f"the gradient of {name}"
        return ""


def names(frame: FrameType | None, tensor: Any, registered: Registered) -> Names:
    """Of the operation that a stack of frames, the innermost first, has called about ``tensor``."""
    stack: list[Frame] = []
    variables: dict[str, None] = {}
    for each in frames_of(frame):
        if not _is_library(each.f_code):
            stack.append(_call(each.f_code, each.f_lasti))
            variables |= {name: None for name, it in each.f_locals.items() if it is tensor}
    name = registered.name(tensor) if isinstance(tensor, Tensor) else ""
    return Names(tuple(reversed(stack)), tuple(variables), name)


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
