"""Operators of a script take virtual time: ``--compute`` (:mod:`squall.sim.world.compute`).

An operator is what Python calls of torch, as ``torch.overrides`` sees it: what a function of torch does
inside belongs to it, and ``backward`` is one. Its time passes when it has ended, so the task may be
switched there, as after any other wait. Of a module that has a duration, operators take none.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import thread_time  # Python's own: that of the module may be virtual later
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules import module as torch_modules
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_any

from squall.sim.world.compute import EVERY, parse_compute

#: the module that runs and has a duration of its own
_outermost: ContextVar[torch.nn.Module | None] = ContextVar("module with a duration", default=None)
_BACKWARD = "backward"
#: functions of torch.distributed.pipelining.stage, and which operators they are: all of a backward pass of a stage, or,
#: in schedules that divide it, the part for its input and the part for its weights
_STAGES = {
    "stage_backward": _BACKWARD,
    "stage_backward_input": "backward_input",
    "stage_backward_weight": "backward_weight",
}
_PROPERTIES = frozenset(("get", "set", "delete"))
#: what moves tensors and makes them again, and the engines: none of it is called by a script
_TORCH = os.path.dirname(str(torch.__file__))
_SQUALL = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
_NOT_OF_SCRIPTS = (
    *(os.path.join(_SQUALL, room) for room in ("model", "real", "sim")),
    *(
        os.path.join(_TORCH, path)
        for path in (
            "_utils.py",
            "storage.py",
            "serialization.py",
            "multiprocessing",
            "distributed",
        )
    ),
)
#: where torch has functions of Python that hand themselves to a mode
_ON_THE_WAY = {os.path.join(_TORCH, path) for path in ("overrides.py", "autograd/__init__.py")}


class Computing(TorchFunctionMode):
    """On the stack of each thread that runs code of a script. ``spend`` lets seconds pass for who calls it, in an
    operator.

    :attr:`computed`: by operator, or class of a module that has a duration, how often it ran and how
    many seconds of processor time it took.
    """

    def __init__(self, durations: str, spend: Callable[[float, str], object]) -> None:
        super().__init__()
        self.computed: dict[str, tuple[int, float]] = {}
        self._seconds, self._spend = parse_compute(durations), spend
        #: how much of its time a backward pass that is under way has taken
        self._early_s: float | None = None

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        raw = str(getattr(func, "__name__", ""))
        name = raw.strip("_")
        self._begin(name)
        before_s = thread_time()
        result = func(*args, **(kwargs or {}))
        took_s = thread_time() - before_s
        if name in _PROPERTIES or _caller().startswith(_NOT_OF_SCRIPTS):
            return result
        in_place = raw.endswith("_") and not raw.startswith("__")
        if name == _BACKWARD or in_place or tree_any(_is_tensor, result):
            self.ran(name, took_s)
        return result

    def ran(self, name: str, took_s: float = 0.0) -> None:
        """An operator has ended."""
        if _outermost.get() is not None:
            return
        times, total = self.computed.get(name, (0, 0.0))
        self.computed[name] = times + 1, total + took_s
        seconds = self._seconds_of(name)
        if name == _BACKWARD and self._early_s is not None:
            seconds, self._early_s = seconds - self._early_s, None
        if seconds > 0:
            self._spend(seconds, name)

    def part_of_backward(self, part: float) -> None:
        """So much of the pass that is under way is done: its time passes now, and not when it has ended."""
        if self._early_s is None:
            return
        whole_s = self._seconds_of(_BACKWARD)
        seconds = min(part * whole_s, whole_s - self._early_s)
        if seconds > 0:
            self._early_s += seconds
            self._spend(seconds, _BACKWARD)

    def _seconds_of(self, name: str) -> float:
        return self._seconds.get(name, self._seconds.get(EVERY, 0.0))

    def _begin(self, name: str) -> None:
        if name == _BACKWARD:
            self._early_s = 0.0

    def time_stages(self, stages: Any) -> None:
        """Let passes of stages of a pipeline be operators; ``stages``: torch.distributed.pipelining.stage."""
        for name, told in _STAGES.items():
            setattr(stages, name, self._timed(getattr(stages, name), told))

    @contextmanager
    def watch(self, autograd: ModuleType) -> Iterator[None]:
        """While this is open, modules with a duration take it, and so does ``backward`` of ``autograd``."""
        backward = vars(autograd)[_BACKWARD]
        begins = torch_modules.register_module_forward_pre_hook(self._begins)
        ends = torch_modules.register_module_forward_hook(self._ends, always_call=True)
        vars(autograd)[_BACKWARD] = self._timed(backward)
        try:
            yield
        finally:
            vars(autograd)[_BACKWARD] = backward
            begins.remove()
            ends.remove()

    def _timed(self, function: Any, name: str = _BACKWARD) -> Any:
        """An operator although torch does not see it, or not as one of the script's."""

        @functools.wraps(function)
        def ran(*args: Any, **kwargs: Any) -> Any:
            self._begin(name)
            before_s = thread_time()
            result = function(*args, **kwargs)
            self.ran(name, thread_time() - before_s)
            return result

        return ran

    def _begins(self, module: torch.nn.Module, args: object) -> None:
        if _outermost.get() is None and type(module).__name__ in self._seconds:
            _outermost.set(module)

    def _ends(self, module: torch.nn.Module, args: object, output: object) -> None:
        if _outermost.get() is module:
            _outermost.set(None)
            self.ran(type(module).__name__)


def _caller() -> str:
    """The file that has called the operator that ends."""
    frame = sys._getframe(2)
    while frame.f_code.co_filename in _ON_THE_WAY and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename


def _is_tensor(value: object) -> bool:
    return isinstance(value, Tensor)
