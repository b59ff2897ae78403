"""Inside a process of a script on the engine ``torch``: what each rank's backward pass gives to the parameters of a
DistributedDataParallel module, and what is in their gradients when the pass is over.

One process that has the batches of all ranks would come to the mean of the former, which is what
the coordinator compares with the latter (sim/stock/one_process.py).
"""

from __future__ import annotations

import operator
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor
from torch._C._distributed_autograd import _current_context, get_gradients
from torch.autograd.graph import _engine_run_backward
from torch.nn import Module

from squall.real.native.here import Here
from squall.sim.stock.ddp_modules import DdpModules, has_group, ranks_of
from squall.sim.stock.digests import elements, without_modes
from squall.sim.world.places import frames_of, line_of

#: of so many elements of a parameter all are looked at; of more, so many at equal distances
_MOST = 256
#: a callback of a pass that adds itself so often comes behind those of DistributedDataParallel
_CALLBACKS = 3
#: what all backward passes go through
_BACKWARD = _engine_run_backward.__code__
_engine: Any = torch.autograd.Variable._execution_engine


#: of parameters
Gradients = Callable[[Tensor], Tensor | None]


class ParameterPart(NamedTuple):
    """Of one parameter on one rank: ``own`` is what it would have without any other rank, ``got`` what it has, None
    if it has no gradient. A rank that has a part of it has the elements from number ``begin`` on."""

    dtype: torch.dtype
    own: Any
    got: Any
    begin: int = 0


@dataclass
class _Pass:
    #: by parameter: elements that it had before, and of what has come
    before: dict[str, Any] = field(default_factory=dict)
    come: dict[str, Any] = field(default_factory=dict)
    place: str = ""
    #: of a distributed pass: the context that gradients go to instead of the parameters
    context: int | None = None
    #: what parameters had when the pass began
    had: Gradients = operator.attrgetter("grad")


def _gradients(context: int | None) -> Gradients:
    """Those of parameters, or of a context, whose gradients are all read here."""
    return operator.attrgetter("grad") if context is None else get_gradients(context).get


def install(here: Here, modules: DdpModules) -> None:
    """Watch modules that are made from now on."""
    watched: WeakKeyDictionary[Module, _LocalGradients] = WeakKeyDictionary()

    def made(module: Any) -> None:
        watched[module] = _LocalGradients(here, module, modules.names[module])

    def goes_forward(module: Any) -> None:
        if torch.is_grad_enabled() and module in watched:
            watched[module].begins(module.require_backward_grad_sync)

    modules.on_made.append(made)
    modules.on_forward.append(goes_forward)


class _LocalGradients:
    """Of one module; ``what``: its name on all ranks."""

    def __init__(self, here: Here, module: Any, what: str) -> None:
        self._here = here
        self._module = weakref.ref(module)
        self._what = what
        self._ranks = ranks_of(module)
        self._count = 0
        self._pass = _Pass()
        #: whether the backward pass of the last forward pass exchanges gradients
        self._exchanges = False
        #: the context of distributed autograd in which that was
        self._context: int | None = None
        self._parameters: dict[str, weakref.ref[Tensor]] = {}
        ignored = module.parameters_to_ignore
        for name, parameter in module.module.named_parameters():
            if parameter.requires_grad and name not in ignored:
                self._parameters[name] = weakref.ref(parameter)
                with torch.enable_grad():
                    view: Any = parameter.view_as(parameter)
                accumulates = view.grad_fn.next_functions[0][0]
                accumulates.register_prehook(partial(self._comes, name))

    def begins(self, exchanges: bool) -> None:
        """A forward pass, whose backward pass ``exchanges`` gradients or does not."""
        self._exchanges, self._pass = exchanges, _Pass()
        self._context = _current_context_id()
        module = self._module()
        if module is None or not module.find_unused_parameters:
            return
        with without_modes(), torch.no_grad():  # what it does not use is exchanged as it is
            for name, each in self._parameters.items():
                parameter = each()
                if parameter is not None and parameter.grad is not None:
                    self._pass.before[name] = _sample(parameter.grad, parameter)

    def _comes(self, name: str, gradients: tuple[Tensor | None, ...]) -> None:
        """``AccumulateGrad`` is about to add something to the gradient of a parameter."""
        parameter = self._parameters[name]()
        if parameter is None or gradients[0] is None or torch.compiler.is_compiling():
            return
        if not self._pass.come:
            if _is_within_another():
                return  # its end is not that of the pass
            self._pass.place = line_of(sys._getframe())
            # A distributed pass runs on threads of the engine, any other on that which has called it.
            self._pass.context = None if frames_of_passes() else self._context
            self._pass.had = _gradients(self._pass.context)
            _engine.queue_callback(partial(self._over, _CALLBACKS, self._pass))
        with without_modes(), torch.no_grad():
            if name not in self._pass.come:
                self._pass.before[name] = _sample(self._pass.had(parameter), parameter)
                self._pass.come[name] = 0
            self._pass.come[name] = self._pass.come[name] + _sample(gradients[0], parameter)

    def _over(self, callbacks: int, about: _Pass) -> None:
        """A backward pass comes to its end."""
        if callbacks:
            _engine.queue_callback(partial(self._over, callbacks - 1, about))
            return
        module = self._module()
        if module is None or about is not self._pass:
            return
        self._pass = _Pass()
        if not self._exchanges or not has_group(module):
            return
        self._count += 1
        # Of a rank whose loss depends on no parameter nobody hears: passes are matched by the collectives before.
        number = module.process_group._get_sequence_number_for_group()
        parts = {}
        has = _gradients(about.context)
        with without_modes(), torch.no_grad():
            for name, before in about.before.items():
                parameter = self._parameters[name]()
                if parameter is not None:
                    gradient = has(parameter)
                    got = None if gradient is None else _sample(gradient, parameter)
                    own = before + about.come.get(name, 0)
                    parts[name] = ParameterPart(parameter.dtype, own, got)
        hook = _hook(module)
        rank = self._ranks.index(torch.distributed.get_rank())
        told = about.place, self._count, hook, parts
        self._here.tell("local gradients", self._what, self._ranks, rank, number, told)


def _current_context_id() -> int | None:
    try:
        context: int = _current_context()._context_id()
    except RuntimeError:  # there is none
        return None
    return context


def _is_within_another() -> bool:
    """Whether this backward pass is called by another one, as checkpoints do that are reentrant."""
    return len(frames_of_passes()) > 1


def frames_of_passes() -> list[FrameType]:
    """Of the backward passes that run on this thread, the inner ones first."""
    return [frame for frame in frames_of(sys._getframe()) if frame.f_code is _BACKWARD]


def _hook(module: Any) -> str:
    """What else than a mean DistributedDataParallel has been told to make of gradients."""
    names = [getattr(hook, "__name__", type(hook).__name__) for hook, _ in module._comm_hooks]
    if module.mixed_precision is not None:
        names.append("mixed precision")
    return ", ".join(names)


def distance(size: int) -> int:
    """Between those elements of a parameter that are looked at."""
    return max(1, size // _MOST)


def sample(tensor: Tensor, size: int, begin: int = 0, end: int | None = None) -> Any:
    """Of elements of a parameter of this size, in as many bits as NumPy has for them."""
    name, content = elements(tensor, distance(size), begin, end)
    return np.frombuffer(content, name).astype("complex128" if tensor.is_complex() else "float64")


def _sample(tensor: Tensor | None, parameter: Tensor) -> Any:
    """Zero if there is none."""
    return 0 if tensor is None else sample(tensor, parameter.numel())
