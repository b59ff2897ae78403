"""Inside a process of a script on the engine ``torch``: what each rank's backward pass gives to modules of
FullyShardedDataParallel, before they reduce it, and what is in their gradients when the pass is over.

The coordinator compares the mean of the former with each rank's part of the latter (sim/stock/one_process.py).
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
import torch.distributed as dist
from torch.nn import Module

from squall.real.native.here import Here
from squall.sim.stock.digests import without_modes
from squall.sim.stock.fsdp_modules import (
    FsdpModules,
    gradient_of,
    handles_of,
    names_of,
    ranks_of,
)
from squall.sim.stock.local_gradients import ParameterPart, distance, sample
from squall.sim.world.places import line_of

#: a rank's part of a parameter of which it has none
_NOTHING = np.empty(0)


class _Place(NamedTuple):
    """Of a parameter: where it is in a whole flat parameter, and the part of it that this rank has: where that begins in
    its shard, and at which elements of the parameter it begins and ends."""

    start: int
    size: int
    in_shard: int
    begin: int
    end: int

    def looked_at(self) -> tuple[int, int]:
        """The first element of the part that is looked at, and its number among those of the parameter."""
        number = -(-self.begin // distance(self.size))
        return number * distance(self.size), number


def install(here: Here, modules: FsdpModules) -> None:
    """Watch modules whose backward passes begin from now on."""
    gradients = _Gradients(here, modules)
    modules.on_gradient.append(gradients.given)
    modules.on_pass.append(gradients.over)


class _Gradients:
    def __init__(self, here: Here, modules: FsdpModules) -> None:
        self._here = here
        self._modules = modules
        #: by handle whose pass is not over: of each parameter what this rank alone has
        self._own: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()
        self._place = ""
        self._passes: Counter[Module] = Counter()

    def given(self, module: Any, handle: Any) -> None:
        """A pass has come to the gradient of a handle, which is about to be reduced."""
        flat = handle.flat_param
        self._place = self._place or line_of(sys._getframe())
        own = []
        with without_modes(), torch.no_grad():
            for at, place in enumerate(_places(flat)):
                came = sample(flat.grad, place.size, place.start, place.start + place.size)
                if handle.uses_sharded_strategy:
                    if handle in self._own:  # reentrant checkpoints have several
                        came = came + self._own[handle][at]
                    elif getattr(flat, "_saved_grad_shard", None) is not None:
                        # Of what there was before only this rank has this part, and a mean divides it.
                        before = _part(flat._saved_grad_shard, place.in_shard, place)
                        _, number = place.looked_at()
                        came[number : number + len(before)] += before * module.world_size
                own.append(came)
        self._own[handle] = own

    def over(self, root: Any) -> None:
        """A pass of an outermost module is over."""
        place, self._place = self._place, ""
        told: dict[tuple[int, ...], tuple[dict[str, ParameterPart], dict[str, None]]] = {}
        for module, handle in handles_of(root):
            own = self._own.pop(handle, None)
            if own is None:
                continue
            ranks = ranks_of(module)
            if ranks is None:
                why = "the groups do not say which ranks average its gradients"
                self._here.tell("not compared", f"{self._modules.names[root]}: {why}")
                continue
            parts, hooks = told.setdefault(ranks, ({}, {}))
            with without_modes(), torch.no_grad():
                parts.update(zip(names_of(root, handle), _parts(handle, own), strict=True))
            hooks.update(dict.fromkeys(_hooks(module, handle)))
        self._passes[root] += bool(told)
        number = self._passes[root]
        for ranks, (parts, hooks) in told.items():
            rank = ranks.index(dist.get_rank())
            about = place, number, ", ".join(hooks), parts
            name = self._modules.names[root]
            self._here.tell("local gradients", name, ranks, rank, number, about)


def _places(flat: Any) -> list[_Place]:
    starts = itertools.accumulate(flat._numels_with_padding, initial=0)
    is_parameter = (not is_padding for is_padding in flat._is_padding_mask)
    begins = itertools.compress(starts, is_parameter)
    places = []
    for start, size, info in zip(begins, flat._numels, flat._shard_param_infos, strict=True):
        part = (0, 0, 0)
        if info.in_shard:
            part = info.offset_in_shard, info.intra_param_start_idx, info.intra_param_end_idx + 1
        places.append(_Place(start, size, *part))
    return places


def _part(tensor: Any, begin: int, place: _Place) -> Any:
    """What is looked at of a rank's part of a parameter, which begins there in a tensor."""
    first, _ = place.looked_at()
    return sample(tensor, place.size, begin + first - place.begin, begin + place.end - place.begin)


def _parts(handle: Any, own: list[Any]) -> list[ParameterPart]:
    parts = []
    for at, place in enumerate(_places(handle.flat_param)):
        _, number = place.looked_at()
        got: Any = _NOTHING
        if place.end:
            tensor, begin = gradient_of(handle, at)
            got = None if tensor is None else _part(tensor, begin, place)
        parts.append(ParameterPart(handle.flat_param.dtype, own[at], got, number))
    return parts


def _hooks(module: Any, handle: Any) -> list[str]:
    """What else than a mean may be made of gradients."""
    hook = module._comm_hook
    names = [] if hook is None else [getattr(hook, "__name__", type(hook).__name__)]
    if handle._uses_param_mixed_precision or handle._uses_reduce_mixed_precision:
        names.append("mixed precision")
    return names
