"""Inside a process of a script on the engine ``torch``: tells digests of what other ranks have to have, too.

That is what DistributedDataParallel keeps alike, the parts of a DTensor that are replicated, and what
FullyShardedDataParallel does not shard, those of hybrid sharding among both. The coordinator compares them (sim/stock/replicas.py).
"""

from __future__ import annotations

import gc
import itertools
import sys
from collections import Counter
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from squall.real.native.here import Here
from squall.sim.stock.ddp_modules import DdpModules, has_group, ranks_of
from squall.sim.stock.digests import digest, without_modes
from squall.sim.stock.fsdp_modules import FsdpModules
from squall.sim.world.places import frames_of, line_of

#: hooks of DistributedDataParallel under which its replicas are apart on purpose, until somebody averages them
_LOCAL_HOOKS = ("noop_hook", "post_localSGD_hook")
#: the frame in which an optimizer's step runs
_STEP = "Optimizer.profile_hook_step.<locals>.wrapper"


def install(here: Here, modules: DdpModules, sharded: FsdpModules) -> None:
    """Watch modules and optimizers that are made from now on."""
    watch = _Watch(here, modules, sharded)
    modules.on_forward.append(watch.goes_forward)
    register_optimizer_step_post_hook(watch.stepped)


class _Watch:
    def __init__(self, here: Here, modules: DdpModules, sharded: FsdpModules) -> None:
        self._here = here
        self._modules = modules.names
        self._sharded = sharded
        self._steps: Counter[tuple[Any, ...]] = Counter()
        #: by optimizer of replicated parts: its number, and names of its parameters
        self._names: WeakKeyDictionary[Optimizer, tuple[int, dict[int, str]]] = WeakKeyDictionary()
        self._numbers = itertools.count()

    def goes_forward(self, module: Any) -> None:
        """It begins a forward pass, its buffers have been exchanged."""
        if not torch.is_grad_enabled() or not module.require_backward_grad_sync:
            return
        if module not in self._modules or _is_local(module):
            return
        have = _parameters(module)
        if module.will_sync_module_buffers() and not hasattr(module, "buffer_hook"):
            buffers = module.module.named_buffers()
            have |= {n: each for n, each in buffers if n not in module.parameters_to_ignore}
        number = module.process_group._get_sequence_number_for_group()
        self._tell("", self._modules[module], "", ranks_of(module), number, have, [*have])

    def stepped(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """An optimizer has made a step; one that is part of another one tells nothing."""
        if torch.compiler.is_compiling() or not dist.is_initialized() or _is_part():
            return
        stepped = [each for group in optimizer.param_groups for each in group["params"]]
        ids = set(map(id, stepped))
        kind = type(optimizer).__name__
        for module, name in list(self._modules.items()):
            have = _parameters(module)
            own = [each for each, parameter in have.items() if id(parameter) in ids]
            if own and has_group(module) and not _is_local(module):
                state = _state(optimizer, {each: have[each] for each in own})
                ranks = ranks_of(module)
                self._step(kind, name, own[0], ranks, have | state, [*own, *state])
        for ranks, replicated in _replicated(stepped, self._sharded.replicas()).items():
            number, names = self._names_of(optimizer)
            have = {names[id(each)]: each for each in replicated}
            what, first = f"the parameters of optimizer {number}", next(iter(have))
            have |= _state(optimizer, have)
            self._step(kind, what, first, ranks, have, [*have])

    def _step(
        self,
        kind: str,
        what: str,
        first: str,
        ranks: tuple[int, ...],
        have: dict[str, Any],
        own: list[str],
    ) -> None:
        """``first``: of the parameters, which tells optimizers of one module apart."""
        self._steps[what, first, ranks] += 1
        self._tell(kind, what, first, ranks, self._steps[what, first, ranks], have, own)

    def _tell(
        self,
        kind: str,
        what: str,
        first: str,
        ranks: tuple[int, ...],
        number: int,
        have: dict[str, Any],
        own: list[str],
    ) -> None:
        if len(ranks) < 2:
            return
        with without_modes(), torch._C.DisableTorchFunction():
            digests = {name: digest(each) for name, each in have.items()}
        place = line_of(sys._getframe())
        rank = dist.get_rank()
        self._here.tell("replicas", kind, what, first, rank, ranks, number, place, digests, own)

    def _names_of(self, optimizer: Optimizer) -> tuple[int, dict[int, str]]:
        """Its number, and by id of a parameter what that is called in the outermost module that has it."""
        if optimizer not in self._names:
            stepped = [each for group in optimizer.param_groups for each in group["params"]]
            names = {id(each): f"parameter {at}" for at, each in enumerate(stepped)}
            depths: dict[int, int] = {}
            for module in [each for each in gc.get_objects() if issubclass(type(each), Module)]:
                for name, parameter in module.named_parameters():
                    depth = name.count(".") + 1
                    if id(parameter) in names and depth > depths.get(id(parameter), 0):
                        names[id(parameter)] = name.replace("_fsdp_wrapped_module.", "")
                        depths[id(parameter)] = depth
            self._names[optimizer] = next(self._numbers), names
        return self._names[optimizer]


def _state(optimizer: Optimizer, parameters: dict[str, Any]) -> dict[str, Any]:
    """What an optimizer has of each of these, by name; some that belong together have each a part."""
    return {
        f"{key} of {name}": each
        for name, parameter in parameters.items()
        # What ZeroRedundancyOptimizer loads has None for the parameters of other ranks.
        for key, each in (optimizer.state.get(parameter) or {}).items()
        if isinstance(each, Tensor)
    }


def _is_part() -> bool:
    """Whether the step that has ended is called by that of another optimizer."""
    return sum(each.f_code.co_qualname == _STEP for each in frames_of(sys._getframe())) > 1


def _is_local(module: Any) -> bool:
    return any(getattr(hook, "__name__", "") in _LOCAL_HOOKS for hook, _ in module._comm_hooks)


def _parameters(module: Any) -> dict[str, Tensor]:
    ignored = module.parameters_to_ignore
    return {name: each for name, each in module.module.named_parameters() if name not in ignored}


def _replicated(
    parameters: list[Any], known: dict[int, tuple[int, ...]]
) -> dict[tuple[int, ...], list[Any]]:
    """Those that other ranks have the same of, by these ranks. ``known``: of some, by id."""
    found: dict[tuple[int, ...], list[Any]] = {}
    tensor = sys.modules.get("torch.distributed.tensor")
    for each in parameters:
        ranks = known.get(id(each), ())
        if tensor is not None and isinstance(each, tensor.DTensor):
            ranks = _replicas(each.device_mesh, each.placements)
        if len(ranks) > 1:
            found.setdefault(ranks, []).append(each)
    return found


def _replicas(mesh: Any, placements: Any) -> tuple[int, ...]:
    """The ranks of a mesh that have the same part of a tensor as this one."""
    at = mesh.get_coordinate()
    if at is None or any(each.is_partial() for each in placements):
        return ()
    whole = [each.is_replicate() for each in placements]
    with without_modes():
        part = mesh.mesh[tuple(slice(None) if all else n for all, n in zip(whole, at, strict=True))]
        return tuple(part.reshape(-1).tolist())
