"""Inside a process of a script on the engine ``torch``: its modules of FullyShardedDataParallel."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import Module

from squall.sim.stock.after_import import after_import
from squall.sim.stock.ddp_modules import has_group


class FsdpModules:
    """The outermost ones whose backward passes have ended. ``names``: what each is called on all ranks, in the order
    of their first passes."""

    def __init__(self) -> None:
        self.names: WeakKeyDictionary[Module, str] = WeakKeyDictionary()
        #: told of a module and its handle, whose flat parameter has the gradient that comes of this rank alone
        self.on_gradient: list[Callable[[Any, Any], object]] = []
        #: told of an outermost module whose backward pass is over
        self.on_pass: list[Callable[[Any], object]] = [self._name]
        self._made: Counter[tuple[int, ...]] = Counter()
        after_import("torch.distributed.fsdp._runtime_utils", self._watch)

    def replicas(self) -> dict[int, tuple[int, ...]]:
        """By id of what optimizers step: the ranks that have the same of it."""
        return {
            id(each): ranks
            for root in filter(has_group, [*self.names])
            for module, handle in handles_of(root)
            for ranks in [_replicas(module, handle)]
            for each in (handle.flat_param, *(handle.flat_param._params or ()))
        }

    def _watch(self, runtime: Any) -> None:
        given, over = runtime._post_backward_hook, runtime._post_backward_final_callback

        @functools.wraps(given)
        def after_gradient(module: Any, handle: Any, *args: Any, **words: Any) -> Any:
            has_one = handle.flat_param.grad is not None
            if has_one and module._sync_gradients and not torch.compiler.is_compiling():
                for each in self.on_gradient:
                    each(module, handle)
            return given(module, handle, *args, **words)

        @functools.wraps(over)
        def after_pass(module: Any, *args: Any, **words: Any) -> Any:
            result = over(module, *args, **words)
            if not torch.compiler.is_compiling():
                for each in self.on_pass:
                    each(module)
            return result

        runtime._post_backward_hook = after_gradient
        runtime._post_backward_final_callback = after_pass

    def _name(self, module: Any) -> None:
        if module not in self.names:
            ranks = tuple(dist.get_process_group_ranks(module.process_group))
            self.names[module] = f"FullyShardedDataParallel {self._made[ranks]}"
            self._made[ranks] += 1


def handles_of(root: Any) -> Iterator[tuple[Any, Any]]:
    """Modules within it that have parameters of their own, and what each keeps of these."""
    for module in root._all_fsdp_states:
        if module._handle is not None:
            yield module, module._handle


def ranks_of(module: Any) -> tuple[int, ...] | None:
    """Those over which its gradients are averaged; None if that is not known."""
    shards = tuple(dist.get_process_group_ranks(module.process_group))
    copies: Any = getattr(module, "_inter_node_pg", None)
    if copies is None:
        return shards
    if module._device_mesh is not None:
        return tuple(sorted(itertools.chain(*module._device_mesh.mesh.tolist())))
    size = dist.get_world_size()
    return tuple(range(size)) if len(shards) * copies.size() == size else None


def _replicas(module: Any, handle: Any) -> tuple[int, ...]:
    if not handle.uses_sharded_strategy:
        return ranks_of(module) or ()
    copies: Any = getattr(module, "_inter_node_pg", None)
    return () if copies is None else tuple(dist.get_process_group_ranks(copies))


def names_of(root: Module, handle: Any) -> list[str]:
    """What the root calls the parameters of a handle."""
    from torch.distributed.fsdp._common_utils import clean_tensor_name

    (prefix,) = (
        name for name, each in root.named_modules() if each is handle._fully_sharded_module
    )
    before = f"{prefix}." if prefix else ""
    return [clean_tensor_name(before + name) for name in handle.flat_param._fqns]


def gradient_of(handle: Any, at: int) -> tuple[Tensor | None, int]:
    """A tensor that has this rank's part of the gradient of one of its parameters, and where that begins."""
    flat = handle.flat_param
    if flat._params is not None:  # use_orig_params=True
        return flat._params[at].grad, 0
    return flat.grad, flat._shard_param_infos[at].offset_in_shard
