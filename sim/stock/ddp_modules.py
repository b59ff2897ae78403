"""Inside a process of a script on the engine ``torch``: its modules of DistributedDataParallel."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch.nn import Module
from torch.nn.parallel import DistributedDataParallel

_Ddp: Any = DistributedDataParallel


class DdpModules:
    """Those that are made from now on. ``names``: what each is called on all ranks, in the order in which they were
    made."""

    def __init__(self) -> None:
        self.names: WeakKeyDictionary[Module, str] = WeakKeyDictionary()
        #: told of one that has been made; and of one that begins a forward pass, its buffers exchanged
        self.on_made: list[Callable[[Any], object]] = [self._name]
        self.on_forward: list[Callable[[Any], object]] = []
        self._made: Counter[tuple[int, ...]] = Counter()
        # Not __init__, whose warnings are about whoever calls it.
        _Ddp._ddp_init_helper = after_method(_Ddp._ddp_init_helper, self.on_made)
        _Ddp._pre_forward = after_method(_Ddp._pre_forward, self.on_forward)

    def _name(self, module: Any) -> None:
        ranks = ranks_of(module)
        self.names[module] = f"DistributedDataParallel {self._made[ranks]}"
        self._made[ranks] += 1


def ranks_of(module: Any) -> tuple[int, ...]:
    return tuple(dist.get_process_group_ranks(module.process_group))


def has_group(module: Any) -> bool:
    """Whether its group has not been destroyed: a loop that begins anew after an error may leave a wrapper behind."""
    groups: Any = vars(dist.distributed_c10d)["_world"]
    return module.process_group in groups.pg_group_ranks


def after_method(function: Any, told: list[Callable[[Any], object]]) -> Any:
    """A method after which all of ``told`` are called with its object."""

    @functools.wraps(function)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = function(self, *args, **kwargs)
        if not torch.compiler.is_compiling():
            for each in told:
                each(self)
        return result

    return method
